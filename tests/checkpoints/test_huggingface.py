"""Hugging Face folders: ours read back, and both ways with transformers."""

import dataclasses
import json

import numpy as np
import pytest
import safetensors.numpy

from albert_tf import load_predictor
from albert_tf.checkpoints import (
    conversion,
    discovery,
    huggingface,
    huggingface_tokenizer,
    keras_hub,
    tf1,
)
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.export import saved_model
from albert_tf.export.export_config import ExportConfig
from albert_tf.modeling.pretraining_model import PretrainingModel
from albert_tf.modeling.sequence_models import ClassifierModel
from albert_tf.text import base
from albert_tf.text.sentencepiece_tokenizer import SentencePieceTokenizer
from tests.checkpoints.weights import (
    PARITY,
    ask_transformers,
    check_close,
    check_same,
    convert,
    run_transformers,
    starting,
    weights_of,
    write_sentence_transformers,
)
from tests.text.tokenizer_files import write_tokenizer_json

_WEIGHTS = "model.safetensors"


def _edit_tensors(folder, edit):
    path = folder / _WEIGHTS
    tensors = safetensors.numpy.load_file(path)
    edit(tensors)
    safetensors.numpy.save_file(tensors, path, metadata={"format": "pt"})


def _edit_config(folder, **values):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.fixture
def folder(source, tmp_path):
    """A folder of the tiny model."""
    huggingface.write(str(tmp_path), source)
    return tmp_path


@pytest.mark.parametrize(
    ("vocabulary", "name", "expected"),
    [
        ("tiny_spm_model", "spiece.model", [0, 2, 3]),
        ("wordpiece", "vocab.txt", [2, 1, 3]),
    ],
)
def test_the_vocabulary_is_copied(
    source, tmp_path, request, vocabulary, name, expected
):
    source = dataclasses.replace(
        source,
        vocabulary=str(request.getfixturevalue(vocabulary)),
        metadata=Metadata(do_lower_case=False),
    )
    huggingface.write(str(tmp_path), source)

    found = discovery.open(tmp_path)

    assert found.vocabulary == str(tmp_path / name)
    assert found.metadata.do_lower_case is False
    config = json.loads((tmp_path / "config.json").read_text())
    keys = ("pad_token_id", "bos_token_id", "eos_token_id")
    assert [config[key] for key in keys] == expected
    # Of a WordPiece vocabulary, transformers makes our ids itself.
    has_steps = (tmp_path / "tokenizer.json").exists()
    assert has_steps == (name == "spiece.model")


def test_a_folder_may_have_a_tokenizer_json_only(
    source, tmp_path, tiny_spm_model
):
    folder = tmp_path / "theirs"
    folder.mkdir()
    huggingface.write(str(folder), source)
    write_tokenizer_json(
        folder / "tokenizer.json", tiny_spm_model, do_lower_case=False
    )
    _edit_config(folder, id2label={"0": "a", "1": "b"})
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}')

    found = discovery.open(folder)

    assert found.vocabulary == str(folder / "tokenizer.json")
    assert found.metadata.do_lower_case is False
    ours = tmp_path / "ours"
    ours.mkdir()
    tf1.write_ours(str(ours), found)
    again = discovery.open(ours)
    assert again.vocabulary == str(ours / "spiece.model")
    tokens, expected = (
        one.tokenizer.encode("The snow, 25, fell.") for one in (again, found)
    )
    assert tokens == expected


def _make_bare(tensors):
    """As older files of the encoder alone."""
    bare = starting(tensors, "albert.")
    tensors.clear()
    for name, array in bare.items():
        tensors[name.removeprefix("albert.")] = array
    tensors["embeddings.position_ids"] = np.arange(7)[None]


def _copy_tied(tensors):
    name = "albert.embeddings.word_embeddings.weight"
    tensors["predictions.decoder.weight"] = tensors[name].copy()
    tensors["predictions.decoder.bias"] = tensors.pop("predictions.bias")


@pytest.mark.parametrize(
    ("edit", "kept"), [(_make_bare, "bert/"), (_copy_tied, "")]
)
def test_other_names_of_the_same_tensors_are_read(edit, kept, source, folder):
    _edit_tensors(folder, edit)

    found = discovery.open(folder).arrays

    check_same(found, starting(source.arrays, kept))


def _write_parts(folder, tensors):
    """Writes tensors to two files with an index."""
    weight_map = {}
    for part, names in enumerate((sorted(tensors)[::2], sorted(tensors)[1::2])):
        file = f"model-{part}.safetensors"
        kept = {name: tensors[name] for name in names}
        safetensors.numpy.save_file(kept, folder / file)
        weight_map |= dict.fromkeys(names, file)
    index = json.dumps({"weight_map": weight_map})
    (folder / "model.safetensors.index.json").write_text(index)


def test_files_in_parts_are_read_unless_a_whole_one_is_there(source, folder):
    tensors = safetensors.numpy.load_file(folder / _WEIGHTS)
    _write_parts(folder, {name: array + 1 for name, array in tensors.items()})
    check_same(discovery.open(folder).arrays, source.arrays)

    _write_parts(folder, tensors)
    (folder / _WEIGHTS).unlink()

    check_same(discovery.open(folder).arrays, source.arrays)


def test_bfloat16_is_the_upper_half_of_a_float32(folder):
    found = safetensors.numpy.load_file(folder / _WEIGHTS)
    header, data = {}, b""
    for name, array in found.items():
        upper = (array.view(np.uint32) >> 16).astype("<u2").tobytes()
        header[name] = {
            "dtype": "BF16",
            "shape": array.shape,
            "data_offsets": [len(data), len(data) + len(upper)],
        }
        data += upper
    text = json.dumps(header).encode()
    (folder / _WEIGHTS).write_bytes(
        len(text).to_bytes(8, "little") + text + data
    )

    bias = discovery.open(folder).arrays["bert/embeddings/word_embeddings"]

    full = found["albert.embeddings.word_embeddings.weight"]
    np.testing.assert_allclose(bias, full, rtol=2**-7)
    assert bias.dtype == np.float32


# What the config means for us, and what ours says.


_HEAD = {
    "output_weights": np.ones((1, 8), "float32"),
    "output_bias": np.ones(1, "float32"),
}


@pytest.mark.parametrize(
    ("known", "classes", "problem_type"),
    [
        # Unknown: the weights have the same shapes.
        ({}, ["SequenceClassification", "MultipleChoice"], None),
        ({"labels": ()}, ["SequenceClassification"], "regression"),
        ({"head": "multiple_choice"}, ["MultipleChoice"], None),
        ({"head": "token_classifier"}, ["TokenClassification"], None),
        (
            {"labels": ("spam",), "multi_label": True},
            ["SequenceClassification"],
            "multi_label_classification",
        ),
    ],
)
def test_what_a_single_output_means_is_in_the_config(
    source, tmp_path, known, classes, problem_type
):
    source = dataclasses.replace(
        source, arrays=source.arrays | _HEAD, metadata=Metadata(**known)
    )
    huggingface.write(str(tmp_path), source)

    config = json.loads((tmp_path / "config.json").read_text())
    assert config["architectures"] == [f"AlbertFor{name}" for name in classes]
    assert config.get("problem_type") == problem_type
    assert discovery.open(tmp_path).metadata == source.metadata


_THRESHOLDS = {"metadata": {"thresholds": [0.25, 0.75]}}
_CASED = {"tokenizer_config": {"do_lower_case": False}}
_MULTI = {"problem_type": "multi_label_classification"}
_NUMBER = {"problem_type": "regression"}
_CHOICE = {"architectures": ["AlbertForMultipleChoice"]}
_CLASSIFIER = {"architectures": ["AlbertForSequenceClassification"]}


@pytest.mark.parametrize(
    ("labels", "config", "files", "expected"),
    [
        ("b a", {}, _CASED, {"labels": ("b", "a"), "do_lower_case": False}),
        ("LABEL_0 LABEL_1", {}, {}, {}),
        (
            "a b",
            _MULTI,
            _THRESHOLDS,
            {
                "labels": ("a", "b"),
                "multi_label": True,
                "thresholds": (0.25, 0.75),
            },
        ),
        # A number has no label, whatever its name.
        ("stars", _NUMBER, {}, {"labels": ()}),
        ("stars", {}, {}, {}),
        # As a CrossEncoder of sentence-transformers has it: a probability.
        ("LABEL_0", _CLASSIFIER, {}, {"multi_label": True}),
        ("a b a", {}, {}, {"labels": ("a (0)", "b", "a (2)")}),
        ("LABEL_0", _CHOICE, {}, {"head": "multiple_choice"}),
    ],
)
def test_what_the_files_say_of_the_head_is_read(
    labels, config, files, expected, folder
):
    names = {str(i): label for i, label in enumerate(labels.split())}
    _edit_config(folder, id2label=names, **config)
    for name, values in files.items():
        (folder / f"{name}.json").write_text(json.dumps(values))

    assert discovery.open(folder).metadata == Metadata(**expected)


def test_labels_may_be_numbers(folder):
    _edit_config(folder, id2label={"0": 1, "1": 2.5})

    assert discovery.open(folder).metadata == Metadata(labels=("1", "2.5"))


@pytest.mark.parametrize(
    ("modes", "kinds", "expected"),
    [
        ("mean_tokens", ["Normalize"], {"pooling": "mean", "normalizes": True}),
        ("cls_token", [], {"pooling": "cls", "normalizes": False}),
        (
            "mean_tokens max_tokens",
            ["Dense"],
            {"pooling": "mean and max and Dense", "normalizes": False},
        ),
    ],
)
def test_files_of_sentence_transformers_say_how_vectors_are_made(
    modes, kinds, expected, folder
):
    write_sentence_transformers(folder, modes.split(), kinds)

    assert discovery.open(folder).settings == expected | {"max_seq_length": 6}


@pytest.mark.parametrize("length", [5, 512])
def test_a_model_of_sentence_transformers_may_have_a_folder_of_its_own(
    length, folder
):
    own = folder / "0_Transformer"
    own.mkdir()
    for name in ("config.json", "model.safetensors"):
        (folder / name).rename(own / name)
    tokens = {"model_max_length": length}
    (own / "tokenizer_config.json").write_text(json.dumps(tokens))
    # The newer key replaces the older ones.
    write_sentence_transformers(
        folder, ["max_tokens"], model=own.name, pooling_mode="cls"
    )

    expected = {"pooling": "cls", "normalizes": False}
    expected["max_seq_length"] = 6
    assert discovery.open(folder).settings == expected
    assert discovery.open(own).settings == expected


def test_what_sentence_transformers_does_to_texts_is_named(folder):
    write_sentence_transformers(
        folder, ["cls_token"], texts={"do_lower_case": True}
    )
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    prompts = {"prompts": {"query": "find: ", "passage": ""}}
    prompts["default_prompt_name"] = "query"
    path = folder / "config_sentence_transformers.json"
    path.write_text(json.dumps(prompts))

    found = discovery.open(folder)

    assert found.settings["pooling"] == "cls and do_lower_case and prompts"
    out = folder / "out"
    out.mkdir()
    _, notes = huggingface.write(str(out), found)
    assert str(notes[-1]).startswith(
        'unread    settings={"pooling": "cls and do_'
    )


def _projected(source):
    """The model with E = H, and arrays of an embedding and a projection."""
    config = dataclasses.replace(
        source.config, embedding_size=8, always_projects=True
    )
    model = PretrainingModel(config, seed=3)
    return dataclasses.replace(source, config=config, arrays=weights_of(model))


@pytest.mark.parametrize("writer", [huggingface, keras_hub])
def test_equal_widths_may_have_a_projection(writer, source, tmp_path):
    expected = _projected(source)
    if writer is keras_hub:
        kept = starting(expected.arrays, "bert/", "cls/predictions/")
        expected = dataclasses.replace(expected, arrays=kept)
    writer.write(str(tmp_path), expected)

    found = discovery.open(tmp_path)

    assert found.config == expected.config
    check_same(found.arrays, expected.arrays)
    # In Google's, there is none, which is the identity in transformers.
    plain = dataclasses.replace(source.config, embedding_size=8)
    model = PretrainingModel(plain, seed=3)
    arrays = starting(weights_of(model), "bert/", "cls/predictions/")
    other = tmp_path / "other"
    other.mkdir()
    writer.write(str(other), Checkpoint(arrays=arrays, config=plain))
    again = discovery.open(other)
    assert again.config == plain
    check_same(again.arrays, arrays)


@pytest.mark.parametrize("names", [["x", "y", "z"], None])
def test_a_regression_may_have_several_numbers(
    names, source, tmp_path, wordpiece
):
    model = ClassifierModel(source.config, num_labels=3, seed=4)
    changes = {"arrays": weights_of(model), "vocabulary": str(wordpiece)}
    huggingface.write(str(tmp_path), dataclasses.replace(source, **changes))
    _edit_config(tmp_path, problem_type="regression")
    if names:
        _edit_config(tmp_path, id2label=dict(enumerate(names)))
    batch = discovery.load_tokenizer(tmp_path).batch(["a a"], max_seq_length=6)
    batch = {name: array[:, :4] for name, array in batch.items()}
    [expected] = np.array(model(batch)["logits"]).tolist()
    served = tmp_path / "served"
    again = tmp_path / "again"

    convert(tmp_path, again, "huggingface")
    litert = ExportConfig(
        init_checkpoint=str(again), export_dir=str(served), format="litert"
    )
    saved_model.export(litert)

    for folder in (tmp_path, again, served / "1"):
        answer = load_predictor(folder).predict("a a")["prediction"]
        values = [*answer.values()] if names else answer
        np.testing.assert_allclose(values, expected, atol=1e-5)
        assert not names or [*answer] == names
    config = json.loads((again / "config.json").read_text())
    assert config["problem_type"] == "regression"
    assert [*config["id2label"].values()] == (
        names or ["LABEL_0", "LABEL_1", "LABEL_2"]
    )


# Compared with transformers.

_PEER = """
import json, sys
import numpy, torch, transformers

task, folder, question, answers = sys.argv[1:]
if task == "make":
    torch.manual_seed(0)
    config = transformers.AlbertConfig(
        vocab_size=13, embedding_size=4, hidden_size=8, num_hidden_layers=4,
        num_hidden_groups=2, num_attention_heads=2, intermediate_size=6,
        max_position_embeddings=9, initializer_range=0.5)
    model = transformers.AlbertForPreTraining(config).eval()
    model.save_pretrained(folder)
batch = dict(numpy.load(question))
batch = {name: torch.tensor(a, dtype=torch.long) for name, a in batch.items()}
found = {}
with torch.no_grad():
    for kind in ("AlbertModel", "AlbertForPreTraining"):
        model, told = getattr(transformers, kind).from_pretrained(
            folder, output_loading_info=True)
        assert not told["missing_keys"], told
        assert not told["mismatched_keys"], told
        out = model.eval()(**batch)
        found |= {k: v.numpy() for k, v in out.items() if torch.is_tensor(v)}
numpy.savez(answers, **found)
"""


def _log_softmax(logits):
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["model_base", "model_groups"])
def test_transformers_gives_the_recorded_outputs(name, tmp_path):
    huggingface.write(str(tmp_path), discovery.open(PARITY / name))
    with np.load(PARITY / name / "golden.npz") as file:
        golden = dict(file)

    found = ask_transformers(
        _PEER, "load", tmp_path, batch=golden, folder=tmp_path
    )

    positions = golden["masked_lm_positions"]
    rows = np.take_along_axis(
        found["prediction_logits"], positions[:, :, None], axis=1
    )
    for key, array in {
        "sequence_output": found["last_hidden_state"],
        "pooled_output": found["pooler_output"],
        "mlm_log_probs": _log_softmax(rows).reshape(15, -1),
        "sop_log_probs": _log_softmax(found["sop_logits"]),
    }.items():
        check_close(array, golden[key], key)


@pytest.mark.slow
@pytest.mark.parametrize("embedding_size", [4, 8])
def test_a_folder_that_transformers_saved_answers_the_same(
    embedding_size, tmp_path
):
    rng = np.random.default_rng(0)
    batch = {
        "input_ids": rng.integers(0, 13, (2, 9)),
        "input_mask": np.array([[1] * 9, [1] * 5 + [0] * 4]),
        "segment_ids": rng.integers(0, 2, (2, 9)),
    }
    folder = tmp_path / "theirs"
    # With equal widths, there is a projection, too.
    peer = _PEER.replace("size=4", f"size={embedding_size}", 1)
    theirs = ask_transformers(
        peer, "make", folder, batch=batch, folder=tmp_path
    )

    ours = conversion.outputs(
        discovery.open(folder),
        batch | {"masked_lm_positions": np.tile(np.arange(9), (2, 1))},
    )

    for key, array in {
        "sequence_output": theirs["last_hidden_state"],
        "pooled_output": theirs["pooler_output"],
        "masked_lm_logits": theirs["prediction_logits"],
        "sentence_order_logits": theirs["sop_logits"],
    }.items():
        np.testing.assert_allclose(ours[key], array, atol=1e-5, err_msg=key)


_PEER_TOKENIZER = """
import json, sys
import transformers

folder, texts, saved = sys.argv[1:]
tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
rows = json.load(open(texts, encoding="utf-8"))
found = [tokenizer(*row) for row in rows]
tokenizer.save_pretrained(saved)
ids = [tokenizer.pad_token_id, tokenizer.unk_token_id, tokenizer.cls_token_id,
       tokenizer.sep_token_id, tokenizer.mask_token_id]
print(json.dumps({
    "rows": [[one["input_ids"], one["token_type_ids"]] for one in found],
    "special_ids": ids, "model_max_length": tokenizer.model_max_length}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("do_lower_case", [True, False])
def test_transformers_gives_our_ids(
    do_lower_case, source, shared_data, tmp_path
):
    model_file = shared_data / "data" / "spm" / "30k-clean.model"
    known = Metadata(do_lower_case=do_lower_case)
    source = dataclasses.replace(
        source, vocabulary=str(model_file), metadata=known
    )
    for name in ("folder", "saved"):
        (tmp_path / name).mkdir()
    huggingface.write(str(tmp_path / "folder"), source)
    texts = huggingface_tokenizer.sentences(source.tokenizer)
    rows = [*zip(texts), *zip(texts[::2], texts[1::2], strict=True)]
    (tmp_path / "texts.json").write_text(json.dumps(rows))

    paths = [tmp_path / name for name in ("folder", "texts.json", "saved")]
    found = json.loads(run_transformers(_PEER_TOKENIZER, *paths))

    tokenizer = source.tokenizer
    special = tokenizer.special_ids
    for row, answer in zip(rows, found["rows"], strict=True):
        ids = [*map(tokenizer.encode, row), []][:2]
        pair = base.encode_pair(*ids, max_seq_length=10**6, special=special)
        assert answer == [*pair], row
    assert found["special_ids"] == [*dataclasses.astuple(special)]
    assert found["model_max_length"] == source.config.max_position_embeddings
    # Their copy has no spiece.model.
    path = tmp_path / "saved" / "tokenizer.json"
    again = SentencePieceTokenizer(path, do_lower_case=do_lower_case)
    for ours, theirs in zip(
        tokenizer.encode_batch(texts), again.encode_batch(texts), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
