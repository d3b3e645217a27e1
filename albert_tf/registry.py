"""Where extras are found: the only file that names modules by strings.

The core (config, text, model, records, the loop, checkpoints of our own and of
TF1, tables and GLUE, the predictor) imports no extra. Where it needs one, it
looks up a name here. Nothing is imported before it is asked for.
"""

import importlib
from typing import Any

# Steps of the plan of a fine-tuning, before and after its examples are read:
# functions of a `tasks.planning.PlanRequest` that return settings.
STEPS_BEFORE_EXAMPLES = {"preset": "albert_tf.tasks.paper_presets:plan_step"}
STEPS_AFTER_EXAMPLES = {
    "small_data": "albert_tf.tasks.small_data_defaults:plan_step",
    "early_exit": "albert_tf.tasks.head_flags:check_devices",
}

# Optimizers other than the original's.
OPTIMIZERS = {"muon": "albert_tf.optimization.muon:AlbertMuon"}
# Functions that return learning-rate multipliers of weights, by path.
RATES = {
    "layerwise": (
        "albert_tf.optimization.layerwise_decay:learning_rate_multipliers"
    )
}
# Context managers that start the workers of a run, by the name of a strategy.
WORKERS = {"multi_worker": "albert_tf.devices.workers:connected"}
# Standard callbacks of every run, in the order in which they are called.
CALLBACKS = {
    "metrics": "albert_tf.observers.metric_log:MetricLog",
    "tensorboard": "albert_tf.observers.tensorboard:TensorBoard",
    "intervals": "albert_tf.observers.intervals:Intervals",
    "simple": "albert_tf.observers.simple_alternative:SimpleAlternative",
    "label_issues": "albert_tf.observers.label_issues:LabelIssues",
    "model_card": "albert_tf.observers.model_card:ModelCard",
    "report": "albert_tf.observers.report:Report",
    "small_batches": "albert_tf.observers.token_frequencies:SmallBatches",
}
# Callbacks that are created with the plan, by the setting that asks for them.
PLAN_CALLBACKS = {"export_dir": "albert_tf.observers.export:Export"}
# Summaries of several runs, from their folders and failures; charts of a log.
CHARTS = {"curves": "albert_tf.observers.report:Curves"}
SUMMARIES = {"grid": "albert_tf.observers.comparison:summarize"}
# Simple models beside a run: `with_outputs` or `measure`, and `verdict`.
ALTERNATIVES = {"simple": "albert_tf.observers.simple_alternative"}
FREQUENCIES = {"tokens": "albert_tf.observers.token_frequencies"}

# Records and text: runners of builds (`--runner`), readers of other text files
# by ending, finders of repeated documents (`--deduplicate`), reading, packing.
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
# Keras models of heads, by name of the head.
MODELS = {
    "encoder": "albert_tf.modeling.albert_model:AlbertModel",
    "pretraining": "albert_tf.modeling.pretraining_model:PretrainingModel",
    "classifier": "albert_tf.modeling.sequence_models:ClassifierModel",
    "multiple_choice": "albert_tf.modeling.sequence_models:MultipleChoiceModel",
    "span": "albert_tf.modeling.span_models:SpanModel",
    "beam_span": "albert_tf.modeling.span_models:BeamSpanModel",
    "token_classifier": (
        "albert_tf.modeling.sequence_models:TokenClassifierModel"
    ),
}
# Subclasses of `tasks.spec.HeadSpec`, by name of the head.
HEADS = {
    "encoder": "albert_tf.tasks.encoder.spec:EncoderSpec",
    "pretraining": "albert_tf.tasks.pretraining.spec:PretrainingSpec",
    "classifier": "albert_tf.tasks.classification.spec:ClassifierSpec",
    "multiple_choice": "albert_tf.tasks.race.spec:MultipleChoiceSpec",
    "span": "albert_tf.tasks.squad.spec:SpanSpec",
    "beam_span": "albert_tf.tasks.squad.spec:BeamSpanSpec",
    "token_classifier": "albert_tf.tasks.tagging.spec:TaggingSpec",
}
# Functions that trace the signatures of a head for a server, by name.
SIGNATURES = {
    "encoder": "albert_tf.tasks.encoder.signatures:make_signatures",
    "pretraining": "albert_tf.tasks.pretraining.signatures:make_signatures",
    "classifier": "albert_tf.tasks.classification.signatures:make_signatures",
    "multiple_choice": "albert_tf.tasks.race.signatures:make_signatures",
    "span": "albert_tf.tasks.squad.signatures:make_signatures",
    "beam_span": "albert_tf.tasks.squad.signatures:make_signatures",
    "token_classifier": "albert_tf.tasks.tagging.signatures:make_signatures",
}
# Modules and functions that methods of `Predictor` call.
METHODS = {
    "similarity": "albert_tf.metrics.similarity",
    "explain": "albert_tf.inference.explanation:explain",
    "index": "albert_tf.inference.text_index",
}
# Functions that compute the outputs of a head with early exit.
EARLY_EXIT = {"outputs": "albert_tf.tasks.early_exit:outputs"}
# Instances of `tasks.spec.FinetuningSpec`, by the names that users know.
TASKS = {
    **dict.fromkeys(
        (
            *("cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "mismnli"),
            *("qnli", "rte", "wnli", "ax", "custom"),
        ),
        "albert_tf.tasks.classification.sets:FINETUNING",
    ),
    "squad": "albert_tf.tasks.squad.sets:FINETUNING",
    "race": "albert_tf.tasks.race.sets:FINETUNING",
    "ner": "albert_tf.tasks.tagging.sets:FINETUNING",
    "similarity": "albert_tf.tasks.encoder.sets:FINETUNING",
}

# Modules of checkpoint formats other than TF1, in the order in which they are
# asked: `recognises(path)`, `describe(path, albert_config)`.
CHECKPOINT_FORMATS = {
    "keras_file": "albert_tf.checkpoints.keras_file",
    "huggingface": "albert_tf.checkpoints.huggingface",
    "keras_hub": "albert_tf.checkpoints.keras_hub",
    "export": "albert_tf.checkpoints.exported",
}
# Functions that write a checkpoint into a folder, by output format.
CHECKPOINT_WRITERS = {
    "tf1": "albert_tf.checkpoints.released:write",
    "keras": "albert_tf.checkpoints.tf1:write_ours",
    "huggingface": "albert_tf.checkpoints.huggingface:write",
    "keras_hub": "albert_tf.checkpoints.keras_hub:write",
}
# Functions that return what files of other programs say of TF1 weights.
CHECKPOINT_FACTS = {
    "huggingface": "albert_tf.checkpoints.huggingface:metadata_beside",
}
# Functions that fetch a checkpoint, by the scheme of its name.
CHECKPOINT_SCHEMES = {"hf": "albert_tf.hub:fetch"}
# Functions that load a whole Keras model, by the ending of its file.
MODEL_FILES = {".keras": "albert_tf.checkpoints.keras_file:load"}
# Functions that load an exported model to run it, by format.
ENGINES = dict.fromkeys(
    ["litert", "onnx"], "albert_tf.inference.exported_model:load"
)
# Tokenizers, by `text.vocabulary_file.kind_of`.
TOKENIZERS = {
    "sentencepiece": (
        "albert_tf.text.sentencepiece_tokenizer:SentencePieceTokenizer"
    ),
    "symbols": "albert_tf.text.symbol_tokenizer:SymbolTokenizer",
    "wordpiece": "albert_tf.text.wordpiece_tokenizer:WordPieceTokenizer",
}
# Functions that read a SentencePiece model from another file, by its ending.
SENTENCEPIECE_FILES = {".json": "albert_tf.text.tokenizer_json:read_model"}

# Functions that write an export which `load_predictor` runs, by its format.
EXPORTS = {
    "litert": "albert_tf.export.litert:write",
    "onnx": "albert_tf.export.onnx_folder:write",
}
# Replacements of the paper's formulas: kernels, and options of a config.
COMPUTATION = {
    "gradients": "albert_tf.devices.gradients:give_to_graph",
    "kernels": "albert_tf.modeling.fused",
    "attention_window": "albert_tf.modeling.windows:AttentionWithinWindow",
    "pack": "albert_tf.modeling.packing:encode",
    "random_depth": "albert_tf.modeling.random_depth:outputs",
}
# Functions that export a model to another runtime, by its format.
MODEL_FORMATS = dict.fromkeys(
    ["onnx", "litert", "openvino"], "albert_tf.modeling.runtimes:export"
)


def load(reference: str) -> Any:
    """Returns the module, or the attribute of one, that a reference names.

    >>> load("math:pi")
    3.141592653589793
    """
    module_name, _, attribute = reference.partition(":")
    module = importlib.import_module(module_name)
    return getattr(module, attribute) if attribute else module
