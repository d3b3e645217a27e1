"""Where extras are found: the only file that names modules by strings.

The core (config, text, model, records, the loop, checkpoints of our own and of
TF1, tables and GLUE, the predictor) imports no extra. Where it needs one, it
looks up a name here. Nothing is imported before it is asked for.
"""

import importlib
from typing import Any

# Context managers that start the workers of a run, by the name of a strategy.
WORKERS = {"multi_worker": "albert_tf.devices.workers:connected"}

# Records and text: what builds shards elsewhere (`--runner`), what reads other
# text files (by the end of their name), what finds documents that come again
# (`--deduplicate`), reading by files and packing, and remote files.
RUNNERS = {"beam": "albert_tf.data.beam_runner:run"}
DOCUMENT_READERS = {
    ".parquet": "albert_tf.text.parquet_files:read_texts",
    ".xml": "albert_tf.text.wikipedia_dumps:read_texts",
}
DEDUPLICATION = dict.fromkeys(
    ["exact", "minhash"], "albert_tf.data.deduplication:Deduplicator"
)
RECORD_READING = {
    "by_files": "albert_tf.data.graph_reading",
    "packed": "albert_tf.data.packing",
}
FILE_SYSTEMS = {"remote": "albert_tf.storage"}


def load(reference: str) -> Any:
    """Returns the module, or the attribute of one, that a reference names.

    >>> load("math:pi")
    3.141592653589793
    """
    module_name, _, attribute = reference.partition(":")
    module = importlib.import_module(module_name)
    return getattr(module, attribute) if attribute else module
