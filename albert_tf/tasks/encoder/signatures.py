"""The signatures of an encoder: vectors of texts.

Data flow: texts -> ids -> [this file] -> outputs of the encoder, `vector`.
"""

import functools

from albert_tf.serving import exported_encoder
from albert_tf.serving.exported_encoder import ExportedEncoder
from albert_tf.serving.signature import Signature
from albert_tf.tasks.encoder import data, model
from albert_tf.tasks.spec import Exported


def make_signatures(exported: Exported) -> list[Signature]:
    """Returns the signatures of vectors; other poolings leave out `vector`."""
    settings, pool = exported.settings, None
    if settings.pooling in data.POOLINGS:
        pool = functools.partial(model.pool, data=settings)
    return exported_encoder.make_signatures(
        ExportedEncoder(exported.model, exported.weights),
        exported.tokenizer,
        max_seq_length=settings.max_seq_length,
        pool=pool,
    )
