"""What a multiple-choice model can be asked: which option is right.

Data flow: article, question, options -> ids -> [this file] -> choice.
Floor: export.

Source: `tasks.race.features`, whose ids these equal.
"""

import tensorflow as tf

from albert_tf.export import (
    choice_texts,
    flat_rows,
    pair_packing,
    signature,
    text_inputs,
)
from albert_tf.export.classifier_signatures import LogitsOfIds
from albert_tf.export.pair_packing import Ranges
from albert_tf.export.pieces import TextGraph
from albert_tf.export.served_text import ServedText
from albert_tf.export.served_weights import ServedWeights
from albert_tf.export.signature import Signature
from albert_tf.modeling.multiple_choice_model import MultipleChoiceModel
from albert_tf.tasks.race import features
from albert_tf.tasks.race.features import ChoiceLengths

Tensors = dict[str, tf.Tensor]

_WARMUP_TEXTS = {
    "article": "Snow fell all night. In the morning the hills were white.",
    "question": "Snow is _ .",
}
_WARMUP_OPTION = "white"


def make_signatures(
    model: MultipleChoiceModel,
    weights: ServedWeights,
    text_graph: TextGraph,
    *,
    lengths: ChoiceLengths,
    num_choices: int,
) -> list[Signature]:
    """Traces what a multiple-choice model can be asked.

    Raw text gives `choice` int32 `[B]` and `probabilities` `[B, C]`; ids
    `[B, C, S]` give `logits` and `probabilities`.

    Args:
        model: Called for its structure.
        weights: Its weights.
        text_graph: Text to ids.
        lengths: How long a choice made of raw text may be.
        num_choices: C.
    """
    logits_of = LogitsOfIds(model.scorer, weights)
    text_graph = ServedText(text_graph)

    def from_text(
        article: tf.Tensor, question: tf.Tensor, options: tf.Tensor
    ) -> Tensors:
        article, question, options = text_inputs.same_size(
            article=article, question=question, options=options
        )
        with tf.device("/device:CPU:0"):
            inputs = choice_inputs(
                article, question, options, text_graph, lengths
            )
        logits = tf.reshape(logits_of(**inputs), [-1, num_choices])
        # Of options that are as likely, the first.
        _, places = tf.math.top_k(logits, 1)
        return {
            "choice": places[:, 0],
            "probabilities": tf.nn.softmax(logits),
        }

    def from_ids(**ids: tf.Tensor) -> Tensors:
        rows = {
            name: tf.reshape(values, [-1, tf.shape(values)[2]])
            for name, values in ids.items()
        }
        logits = tf.reshape(logits_of(**rows), [-1, num_choices])
        return {"logits": logits, "probabilities": tf.nn.softmax(logits)}

    texts = {name: signature.strings(None) for name in _WARMUP_TEXTS}
    texts["options"] = signature.strings(None, num_choices)
    ids = {
        name: signature.integers(None, num_choices, None)
        for name in text_inputs.ID_INPUTS
    }
    return [
        Signature(
            name=signature.DEFAULT,
            function=signature.trace(from_text, **texts),
            warmup=text_inputs.text_requests(
                **_WARMUP_TEXTS, options=[_WARMUP_OPTION] * num_choices
            ),
        ),
        Signature(
            name=signature.TOKENS,
            function=signature.trace(from_ids, **ids),
            warmup=text_inputs.id_requests(num_choices),
        ),
    ]


def choice_inputs(
    article: tf.Tensor,
    question: tf.Tensor,
    options: tf.Tensor,
    text_graph: TextGraph,
    lengths: ChoiceLengths,
) -> Tensors:
    """Makes the inputs of a model, int32 `[B x C, S]`.

    Args:
        article: Strings `[B]`.
        question: Strings `[B]`.
        options: Strings `[B, C]`.
        text_graph: Makes the pieces.
        lengths: Of question and option the last pieces are kept, of the
            article the first.
    """
    choices = choice_texts.complete(question, options)
    pieces = text_graph(tf.concat([article, choices], 0))
    starts = flat_rows.starts(pieces.row_ids, pieces.num_rows)
    num_articles, num_options = tf.unstack(tf.shape(options))
    sizes = starts[1:] - starts[:-1]
    size_b = tf.minimum(sizes[num_articles:], lengths.max_qa_length)
    room = lengths.max_seq_length - features.NUM_SPECIAL_PIECES - size_b
    size_a = tf.repeat(sizes[:num_articles], num_options)
    return pair_packing.pack_ranges(
        pieces.ids,
        Ranges(
            starts=tf.repeat(starts[:num_articles], num_options),
            sizes=tf.minimum(size_a, room),
        ),
        Ranges(starts=starts[num_articles + 1 :] - size_b, sizes=size_b),
        special=text_graph.special_ids,
    )
