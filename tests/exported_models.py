"""Tokenizers and exports, made once, and texts that are hard on them.

A plugin of pytest: tests of all folders have its fixtures.
"""

import dataclasses
import functools
import json
import math
import pathlib
import random
import string
import unicodedata

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from albert_tf import registry
from albert_tf.checkpoints import tf1, variable_names
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.config import AlbertConfig
from albert_tf.export import saved_model
from albert_tf.export.export_config import ExportConfig
from albert_tf.serving import graph_tokenizer as graphs
from albert_tf.tasks import spec as specs
from albert_tf.text import tokenizer

NUM_CODE_POINTS = 0x110000
SURROGATES = range(0xD800, 0xE000)


class BothTokenizers:
    """A tokenizer in a graph and the same tokenizer in Python.

    Args:
        vocabulary: Arguments of both loaders.
    """

    def __init__(self, **vocabulary):
        self.tokenizer = tokenizer.load_tokenizer(**vocabulary)
        self.graph = graphs.make(self.tokenizer)
        self._scores = np.zeros(self.tokenizer.vocab_size)
        if path := vocabulary.get("spm_model_file"):
            pieces = sentencepiece.SentencePieceProcessor(model_file=path)
            self._scores[:] = [*map(pieces.get_score, range(len(pieces)))]

    def encode(self, texts):
        """Returns rows of id, start and end of each text, str or bytes."""
        encoded = [t if isinstance(t, bytes) else t.encode() for t in texts]
        tokens = self.graph(tf.constant(encoded, tf.string))
        values = np.stack([tokens.ids, tokens.starts, tokens.ends], 1)
        return np.split(values, tokens.row_splits.numpy()[1:-1])

    def differences(self, texts, max_ties=0):
        """Returns the texts on which graph and tokenizer do not agree.

        Up to `max_ties` texts may have other tokens of the same score, but
        for rounding.
        """
        ids, lengths, offsets = self.tokenizer.encode_batch_with_offsets(texts)
        expected = np.split(
            np.stack([ids, *offsets], 1), np.cumsum(lengths)[:-1]
        )
        rows = zip(texts, self.encode(texts), expected, strict=True)
        different = [row for row in rows if not np.array_equal(*row[1:])]
        ties = [row for row in different if self._is_tie(*row[1:])]
        return [
            row
            for row in different
            if len(ties) > max_ties or not self._is_tie(*row[1:])
        ]

    def _is_tie(self, found, expected):
        ids, others = found[:, 0], expected[:, 0]
        scores = self._scores[ids].sum(), self._scores[others].sum()
        # SentencePiece adds in float32, over the whole text.
        is_near = math.isclose(*scores, rel_tol=1e-6, abs_tol=1e-4)
        return is_near and any(scores) and ids.tolist() != others.tolist()


@pytest.fixture(scope="session")
def graph_tokenizer():
    """Makes `BothTokenizers` of any vocabulary."""
    return BothTokenizers


@pytest.fixture(scope="session")
def graph_of(shared_data):
    """Returns the released vocabularies by name, each made once.

    Names are `english` and `chinese`, and with `cased_` before them the same
    without lower-casing.
    """
    chinese = "checkpoint_albert_base_zh_google/vocab_chinese.txt"
    files = {
        "english": {"spm_model_file": "spm/30k-clean.model"},
        "chinese": {"vocab_file": chinese},
    }

    @functools.cache
    def make(name):
        [(kind, path)] = files[name.removeprefix("cased_")].items()
        return BothTokenizers(
            **{kind: str(shared_data / "data" / path)},
            do_lower_case=not name.startswith("cased_"),
        )

    return make


@pytest.fixture(scope="session")
def tiny(tiny_spm_model):
    """A vocabulary that every machine can make."""
    return BothTokenizers(spm_model_file=str(tiny_spm_model))


class TextMaker:
    """Draws texts from pools of characters that are hard on a tokenizer."""

    def __init__(self):
        assigned = [
            chr(c)
            for c in range(NUM_CODE_POINTS)
            if unicodedata.category(chr(c)) not in ("Cn", "Co", "Cs")
        ]
        marks = [c for c in assigned if unicodedata.combining(c)]
        spacing = [c for c in marks if unicodedata.category(c) != "Mn"]
        odd = ("Zs", "Zl", "Zp", "Cc", "Cf")
        right_to_left = [
            c for c in assigned if unicodedata.bidirectional(c) in ("R", "AL")
        ]
        emoji = [chr(c) for c in range(0x1F1E6, 0x1FA00)]
        self.assigned = assigned
        self.pools = [
            assigned,
            marks,
            spacing + marks[:20],
            [chr(c) for c in range(0x1100, 0x1200)],
            [c for c in assigned if unicodedata.category(c) in odd],
            "'.:ΣσΑaΣΣ’·\u00ad\u0345\u0301 ",
            'eeeoaast()-£€"–,.123456789 ',
            "ＡⅣﬁ½İẞß①㍿¨ ´▁漢字0،\ufffd\0",
            ["the ", "ing", "25,", " and", "Tion", " 1,234, ", "##", "[MASK]"],
            [*right_to_left, " "],
            [*emoji, "\u200d", "\ufe0f"],
            string.ascii_letters,
        ]

    def hard(self, rng):
        """A text of runs from several pools, rarely a very long one."""
        runs = []
        for _ in range(rng.randint(0, 12)):
            pool = rng.choice(self.pools)
            longest = 1_000 if rng.random() < 0.002 else 6
            runs += rng.choices(pool, k=rng.randint(1, longest))
        return "".join(runs)

    def plain(self, rng):
        """A short text of any assigned characters."""
        return "".join(rng.choices(self.assigned, k=rng.randint(0, 20)))

    def many(self, kind, number, seed):
        """A list of texts."""
        rng = random.Random(seed)
        return [getattr(self, kind)(rng) for _ in range(number)]


@pytest.fixture(scope="session")
def text_maker():
    return TextMaker()


TINY_CONFIG = AlbertConfig(
    vocab_size=300,
    embedding_size=8,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=24,
    max_position_embeddings=64,
)
SQUAD_VALUES = {
    "max_seq_length": 40,
    "doc_stride": 9,
    "max_query_length": 12,
    "n_best_size": 6,
    "max_answer_length": 7,
}
BEAMS = {"start_n_top": 4, "end_n_top": 3}
LABELS = ("ham", "spam", "grün", "d", "e", "f", "g", "h")
TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
THRESHOLDS = (0.1, 0.9, 0.5, 0.5, 0.2, 0.8, 0.4, 0.6)
_OF_LABELS = {"max_seq_length": 20, "sizes": {"num_labels": len(LABELS)}}
# By name, the settings of an export, and sizes of the model's head. The head
# has the same name, unless it is given.
EXPORTS = {
    "encoder": {"max_seq_length": 48},
    "pretraining": {"max_seq_length": 48},
    "classifier": {"labels": LABELS, **_OF_LABELS},
    "several_labels": {
        "head": "classifier",
        "known": Metadata(
            labels=LABELS, multi_label=True, thresholds=THRESHOLDS
        ),
        **_OF_LABELS,
    },
    "regression": {
        "head": "classifier",
        "sizes": {"num_labels": 1},
        "known": Metadata(task="sts-b", target_mean=2.5, target_scale=50.0),
        "max_seq_length": 20,
    },
    "token_classifier": {
        "sizes": {"num_labels": len(TAGS)},
        "known": Metadata(labels=TAGS, head="token_classifier"),
        "max_seq_length": 20,
        "words": "spaced",
    },
    "span": SQUAD_VALUES,
    "beam_span": {
        "sizes": BEAMS,
        **SQUAD_VALUES,
        **BEAMS,
        "null_score_diff_threshold": 0.2,
    },
    "multiple_choice": {"max_seq_length": 32, "max_qa_length": 10},
}


BASE = pathlib.Path(__file__).resolve().parent / "parity" / "model_base"


def make_config(folder, checkpoint=BASE, **values):
    """Returns the config of an export; settings of heads are named as fields.

    The default checkpoint is the recorded model.
    """
    fields = {field.name for field in dataclasses.fields(ExportConfig)}
    return ExportConfig(
        init_checkpoint=str(checkpoint),
        export_dir=str(folder),
        settings={n: v for n, v in values.items() if n not in fields},
        **{n: v for n, v in values.items() if n in fields},
    )


def base_config(**changes):
    """Returns the config of the recorded model, for 300 tokens."""
    values = json.loads((BASE / "albert_config.json").read_text())
    return AlbertConfig.from_dict(values | {"vocab_size": 300} | changes)


class ExportedTask:
    """A tiny model with large random weights, and its export.

    Args:
        model: The model; it gets the weights.
        folder: For the checkpoint and the export.
        vocabulary: SentencePiece model; or WordPiece vocabulary, `.txt`.
        known: The metadata of the checkpoint; None for none.
        **values: Fields of the `ExportConfig`.
    """

    def __init__(self, model, folder, vocabulary, *, known=None, **values):
        rng = np.random.default_rng(7)
        for weight in model.weights:
            scale = 0.5 if len(weight.shape) > 1 else 0.1
            noise = scale * rng.standard_normal(weight.shape)
            weight.assign_add(noise.astype(np.float32))
        write_checkpoint(
            folder,
            model,
            vocabulary=str(vocabulary),
            metadata=known or Metadata(),
        )
        self.model = model
        self.known = known or Metadata()
        is_wordpiece = vocabulary.suffix == ".txt"
        self.tokenizer = tokenizer.load_tokenizer(
            spm_model_file=None if is_wordpiece else vocabulary,
            vocab_file=vocabulary if is_wordpiece else None,
        )
        self.config = make_config(folder / "served", folder, **values)
        self.spec = specs.head_spec_of(values["head"])
        self.settings = self.config.settings_of(self.spec)
        self.summary = saved_model.export(self.config)
        if self.config.runtime is None:
            # Kept, because its functions do not keep it.
            self._loaded = tf.saved_model.load(self.summary.path)

    def ask(self, signature="serving_default", /, **inputs):
        """Returns the outputs of a signature as arrays."""
        found = self._loaded.signatures[signature](
            **{name: tf.constant(values) for name, values in inputs.items()}
        )
        return {name: values.numpy() for name, values in found.items()}


def write_checkpoint(folder, model, **others):
    """Writes the weights of a model, and other fields of a `Checkpoint`."""
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    by_name = variable_names.variables_by_tf1_name(model.weights)
    arrays = {name: variable.numpy() for name, variable in by_name.items()}
    checkpoint = Checkpoint(arrays=arrays, config=model.config, **others)
    tf1.write_ours(str(folder), checkpoint)


@pytest.fixture(scope="session")
def export_task(tiny_spm_model, tmp_path_factory):
    """Exports a model of `EXPORTS` with any vocabulary and changes."""

    def export(
        name,
        vocabulary=tiny_spm_model,
        albert_config=TINY_CONFIG,
        folder=None,
        **changes,
    ):
        values = {"head": name, "sizes": {}, **EXPORTS[name], **changes}
        make_model = registry.load(registry.MODELS[values["head"]])
        model = make_model(albert_config, **values.pop("sizes"))
        folder = folder or tmp_path_factory.mktemp("exported")
        return ExportedTask(model, folder, vocabulary, **values)

    return export


@pytest.fixture(scope="session")
def exported(export_task):
    """Returns the exports of `EXPORTS` by name, each made once."""
    return functools.cache(export_task)


@pytest.fixture(scope="session")
def tiny_chinese_vocabulary(tmp_path_factory):
    """A WordPiece vocabulary of 300 tokens."""
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"，。？！,.?1234"]
    for letter in string.ascii_lowercase:
        tokens += [letter, f"##{letter}"]
    first = ord("一")
    tokens += map(chr, range(first, first + 300 - len(tokens)))
    path = tmp_path_factory.mktemp("chinese") / "vocab.txt"
    path.write_text("\n".join(tokens), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def read_warmup():
    """Reads model, signature and inputs of each request of a SavedModel."""
    messages = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")

    def read(folder):
        path = pathlib.Path(folder, "assets.extra/tf_serving_warmup_requests")
        for record in tf.data.TFRecordDataset(str(path)):
            log = messages.PredictionLog.FromString(record.numpy())
            request = log.predict_log.request
            inputs = {
                name: tf.make_ndarray(value)
                for name, value in request.inputs.items()
            }
            spec = request.model_spec
            yield spec.name, spec.signature_name, inputs

    return lambda folder: list(read(folder))
