"""Tokenizers and their graphs, made once, and texts that are hard on them."""

import copy
import dataclasses
import functools
import random
import string
import unicodedata

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import tf1, variable_names
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.config import AlbertConfig
from albert_tf.export import exported_text, saved_model
from albert_tf.export.export_config import ExportJob
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.modeling.sequence_models import (
    ClassifierModel,
    MultipleChoiceModel,
)
from albert_tf.modeling.span_models import BeamSpanModel, SpanModel
from albert_tf.text import tokenizer

NUM_CODE_POINTS = 0x110000
SURROGATES = range(0xD800, 0xE000)


class GraphTokenizer:
    """A text graph that is called like a tokenizer, on many texts.

    Args:
        vocabulary: What both loaders take.
    """

    def __init__(self, **vocabulary):
        self.graph = exported_text.load_text_graph(**vocabulary)
        self.tokenizer = tokenizer.load_tokenizer(**vocabulary)
        self.functions = {}

    def run(self, texts, *, with_offsets):
        """Returns ids, row ids and, if asked for, starts and ends."""
        if with_offsets not in self.functions:
            self.functions[with_offsets] = tf.function(
                functools.partial(self._run, with_offsets=with_offsets),
                autograph=False,
                input_signature=[tf.TensorSpec([None], tf.string)],
            )
        encoded = [t if isinstance(t, bytes) else t.encode() for t in texts]
        found = self.functions[with_offsets](tf.constant(encoded, tf.string))
        return [array.numpy() for array in found]

    def _run(self, texts, *, with_offsets):
        tokens = self.graph(texts, with_offsets=with_offsets)
        offsets = (tokens.starts, tokens.ends) if with_offsets else ()
        return tokens.ids, tokens.row_ids, *offsets

    def encode(self, texts):
        """Returns the ids of each text."""
        ids, rows = self.run(texts, with_offsets=False)
        return _split(ids.tolist(), rows, len(texts))

    def encode_with_offsets(self, texts):
        """Returns ids and offsets of each text."""
        ids, rows, *offsets = self.run(texts, with_offsets=True)
        spans = list(zip(*(array.tolist() for array in offsets), strict=True))
        both = (
            _split(ids.tolist(), rows, len(texts)),
            _split(spans, rows, len(texts)),
        )
        return list(zip(*both, strict=True))

    def differences(self, texts):
        """Returns the texts on which graph and tokenizer do not agree."""
        found = self.encode_with_offsets(texts)
        expected = map(self.tokenizer.encode_with_offsets, texts)
        return [
            (text, ours, theirs)
            for text, ours, theirs in zip(texts, found, expected, strict=True)
            if ours != theirs
        ]

    def id_differences(self, texts):
        """Likewise, without offsets, and faster."""
        ids, lengths = self.tokenizer.encode_batch(texts)
        expected = np.split(ids, np.cumsum(lengths)[:-1])
        found = self.encode(texts)
        return [
            (text, ours, theirs.tolist())
            for text, ours, theirs in zip(texts, found, expected, strict=True)
            if ours != theirs.tolist()
        ]


def _split(values, rows, num_rows):
    bounds = np.searchsorted(rows, np.arange(num_rows + 1)).tolist()
    return [values[a:b] for a, b in zip(bounds, bounds[1:], strict=False)]


@pytest.fixture(scope="session")
def english(shared_data):
    """The released English vocabulary."""
    return GraphTokenizer(
        spm_model_file=str(shared_data / "data" / "spm" / "30k-clean.model")
    )


@pytest.fixture(scope="session")
def cased_english(shared_data):
    """The same, without lower-casing."""
    return GraphTokenizer(
        spm_model_file=str(shared_data / "data" / "spm" / "30k-clean.model"),
        do_lower_case=False,
    )


def _chinese_vocabulary(shared_data):
    folder = shared_data / "data" / "checkpoint_albert_base_zh_google"
    return str(folder / "vocab_chinese.txt")


@pytest.fixture(scope="session")
def chinese(shared_data):
    """The released Chinese vocabulary."""
    return GraphTokenizer(vocab_file=_chinese_vocabulary(shared_data))


@pytest.fixture(scope="session")
def cased_chinese(shared_data):
    """The same, without lower-casing."""
    return GraphTokenizer(
        vocab_file=_chinese_vocabulary(shared_data), do_lower_case=False
    )


@pytest.fixture(scope="session")
def tiny(tiny_spm_model):
    """A vocabulary that every machine can make."""
    return GraphTokenizer(spm_model_file=str(tiny_spm_model))


@pytest.fixture(scope="session")
def all_code_points():
    """Every code point once, in texts of 64."""
    characters = [chr(c) for c in range(NUM_CODE_POINTS) if c not in SURROGATES]
    return [
        "".join(characters[i : i + 64]) for i in range(0, len(characters), 64)
    ]


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
        return "".join(rng.choices(self.pools[0], k=rng.randint(0, 20)))

    def many(self, kind, number, seed):
        """A list of texts."""
        rng = random.Random(seed)
        return [getattr(self, kind)(rng) for _ in range(number)]


@pytest.fixture(scope="session")
def text_maker():
    return TextMaker()


@pytest.fixture(scope="session")
def graph_tokenizer():
    """Makes a `GraphTokenizer` of any vocabulary."""
    return GraphTokenizer


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


class ExportedTask:
    """A tiny model with large random weights, and what is served of it.

    Args:
        model: The model; it gets the weights.
        folder: For the checkpoint and the export.
        vocabulary: SentencePiece model; or WordPiece vocabulary, `.txt`.
        **values: Of the `ExportJob`.
    """

    def __init__(self, model, folder, vocabulary, **values):
        rng = np.random.default_rng(7)
        for weight in model.weights:
            scale = 0.5 if len(weight.shape) > 1 else 0.1
            noise = scale * rng.standard_normal(weight.shape)
            weight.assign_add(noise.astype(np.float32))
        arrays = {
            name: variable.numpy()
            for name, variable in variable_names.variables_by_tf1_name(
                model.weights
            ).items()
        }
        checkpoint = Checkpoint(
            arrays=arrays, config=model.config, vocabulary=str(vocabulary)
        )
        tf1.write_ours(str(folder), checkpoint)
        self.model = model
        is_wordpiece = vocabulary.suffix == ".txt"
        self.tokenizer = tokenizer.load_tokenizer(
            spm_model_file=None if is_wordpiece else vocabulary,
            vocab_file=vocabulary if is_wordpiece else None,
        )
        self.job = ExportJob(
            init_checkpoint=str(folder),
            export_dir=str(folder / "served"),
            **values,
        )
        self._serve()

    def _serve(self):
        self.summary = saved_model.run(self.job)
        # Kept, because its functions do not keep it.
        self._loaded = tf.saved_model.load(self.summary.path)

    def again(self, **changes):
        """Returns the same model, exported with changes to its job."""
        other = copy.copy(self)
        other.job = dataclasses.replace(self.job, **changes)
        other._serve()
        return other

    def ask(self, signature="serving_default", /, **inputs):
        """Returns what is answered, as arrays."""
        found = self._loaded.signatures[signature](
            **{name: tf.constant(values) for name, values in inputs.items()}
        )
        return {name: values.numpy() for name, values in found.items()}

    def outputs_of(self, records, names):
        """Returns the model's outputs for records, padded to one length."""
        batch = {
            name: pad_rows([record[name] for record in records], padding)
            for name, padding in names.items()
        }
        return {
            name: values.numpy() for name, values in self.model(batch).items()
        }


def pad_rows(rows, padding):
    """Returns rows of different lengths as one array."""
    shape = (len(rows), max(len(row) for row in rows))
    padded = np.full(shape, padding, rows[0].dtype)
    for place, row in enumerate(rows):
        padded[place, : len(row)] = row
    return padded


@pytest.fixture(scope="session")
def tiny_config():
    return TINY_CONFIG


@pytest.fixture(scope="session")
def export_task(tiny_spm_model, tmp_path_factory):
    """Makes an `ExportedTask` of a model and fields of an `ExportJob`."""

    def export(model, vocabulary=tiny_spm_model, **values):
        folder = tmp_path_factory.mktemp("exported")
        return ExportedTask(model, folder, vocabulary, **values)

    return export


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
def chinese_texts():
    """Texts of tokens of that vocabulary, and of some that it has not."""
    rng = random.Random(5)
    characters = [chr(code_point) for code_point in range(0x4E00, 0x4F00)]
    others = ["，", "。", " ", "word ", "½ ", "Ünit ", "龘", "1,234", "\0"]
    texts = [
        "".join(rng.choices(characters + others * 3, k=size))
        for size in (1, 3, 10, 30, 100)
    ]
    return ["", *texts, "漢" * 20]


@pytest.fixture(scope="session")
def served_encoder(export_task):
    """An encoder with its pretraining heads; also as `.tflite`."""
    model = PretrainingModel(TINY_CONFIG)
    return export_task(model, max_seq_length=48, tflite=True)


@pytest.fixture(scope="session")
def served_classifier(export_task):
    """A classifier with eight labels; also as `.tflite`."""
    labels = ("ham", "spam", "grün", "d", "e", "f", "g", "h")
    return export_task(
        ClassifierModel(TINY_CONFIG, num_labels=len(labels)),
        task="classifier",
        labels=labels,
        max_seq_length=20,
        tflite=True,
    )


@pytest.fixture(scope="session")
def served_regression(export_task):
    """A classifier that gives a number."""
    return export_task(
        ClassifierModel(TINY_CONFIG, num_labels=1),
        task="classifier",
        max_seq_length=20,
    )


@pytest.fixture(scope="session")
def squad_values():
    """Fields of an `ExportJob`."""
    return SQUAD_VALUES


@pytest.fixture(scope="session")
def served_squad_1(export_task):
    """A model of SQuAD 1.1; also as `.tflite`."""
    return export_task(
        SpanModel(TINY_CONFIG), task="squad", tflite=True, **SQUAD_VALUES
    )


@pytest.fixture(scope="session")
def served_squad_2(export_task):
    """A model of SQuAD 2.0."""
    return export_task(
        BeamSpanModel(TINY_CONFIG, start_n_top=4, end_n_top=3),
        task="squad",
        start_n_top=4,
        end_n_top=3,
        null_threshold=0.2,
        **SQUAD_VALUES,
    )


@pytest.fixture(scope="session")
def served_race(export_task):
    """A multiple-choice model of four options."""
    return export_task(
        MultipleChoiceModel(TINY_CONFIG),
        task="race",
        max_seq_length=32,
        max_qa_length=10,
    )
