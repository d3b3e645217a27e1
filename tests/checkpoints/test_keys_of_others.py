"""Folders with each key of transformers' away from its default: equal, or said.

Slow: transformers makes the folders and answers them.
"""

import dataclasses
import json
import logging

import numpy as np
import pytest

import albert_tf
from albert_tf.checkpoints import discovery, foreign_keys, huggingface
from tests import tiny
from tests.checkpoints.weights import run_transformers

_CONFIGS = """
import json, sys
import numpy as np
import torch
from transformers import AlbertConfig, AlbertForSequenceClassification

root, sizes = sys.argv[1], json.loads(sys.argv[2])
others = json.loads(sys.argv[3])
ids = torch.tensor([[2, 5, 7, 9, 3], [2, 6, 8, 3, 0]])
batch = {"input_ids": ids, "attention_mask": (ids > 0).long()}
answers = {}
for key, value in AlbertConfig(**sizes, num_labels=3).to_dict().items():
    other = others.get(key)
    if other is None:
        other = {bool: lambda x: not x, int: lambda x: 2 * x + (x == 0)}.get(
            type(value), lambda x: None
        )(value)
    if other is None:
        continue
    torch.manual_seed(0)
    folder = f"{root}/{key}"
    values = {**sizes, "num_labels": 3, key: other}
    if key == "id2label":
        del values["num_labels"]
    try:
        made = AlbertForSequenceClassification(AlbertConfig(**values))
        torch.nn.init.normal_(made.classifier.bias)
        made.save_pretrained(folder)
        model = AlbertForSequenceClassification.from_pretrained(folder).eval()
        with torch.no_grad():
            answers[key] = model(**batch, return_dict=True).logits.tolist()
    except Exception as error:
        answers[key] = f"{type(error).__name__}: {error}"
print(json.dumps(answers))
"""
_OTHER_CONFIGS = {
    "hidden_act": "relu",
    "id2label": {"0": "a", "1": "b", "2": "c"},
    "initializer_range": 0.3,
    "layer_norm_eps": 1e-5,
    "dtype": "float16",
    "problem_type": "multi_label_classification",
    "num_hidden_groups": 2,
    "num_attention_heads": 4,
    "hidden_dropout_prob": 0.25,
    "attention_probs_dropout_prob": 0.25,
    "classifier_dropout_prob": 0.25,
    "model_type": "bert",
}
# Names that a result depends on otherwise, or that name no setting.
_ONLY_NAMES = {"architectures", "_name_or_path", "transformers_version"}


@pytest.mark.slow
def test_each_key_of_a_config_is_equal_or_said(tmp_path, caplog):
    sizes = tiny.config().to_dict()
    for name in ("hidden_act", "parameter_sharing"):
        del sizes[name]

    answers = json.loads(
        run_transformers(
            _CONFIGS, tmp_path, json.dumps(sizes), json.dumps(_OTHER_CONFIGS)
        )
    )

    ids = np.array([[2, 5, 7, 9, 3], [2, 6, 8, 3, 0]], "int32")
    batch = {"input_ids": ids, "input_mask": np.int32(ids > 0)}
    batch["segment_ids"] = np.zeros_like(ids)
    table, said = foreign_keys.tables()["config.json"], []
    known = {*table["used"], *table["refused unless"], *_ONLY_NAMES}
    known.update(*table["no effect"].values())
    for key, expected in answers.items():
        assert key in known
        if isinstance(expected, str):
            continue  # transformers cannot load it either.
        caplog.clear()
        try:
            model = albert_tf.load_model(tmp_path / key)
        except ValueError as error:
            assert key in str(error), key
            said.append(key)
            continue
        assert "unknown keys" not in caplog.text, key
        found = np.asarray(model(batch)["logits"])
        np.testing.assert_allclose(found, expected, atol=2e-3, err_msg=key)
    assert len(answers) > 20
    assert (
        {"layer_norm_eps"}
        <= {*said}
        <= {
            "layer_norm_eps",
            *table["refused unless"],
        }
    )


_TOKENIZERS = """
import json, sys
from transformers import AutoTokenizer

answers = {}
for name in json.loads(sys.argv[2]):
    try:
        tokenizer = AutoTokenizer.from_pretrained(f"{sys.argv[1]}/{name}")
        texts = json.loads(sys.argv[3])
        answers[name] = [tokenizer(t, truncation=True).input_ids for t in texts]
    except Exception as error:
        answers[name] = f"{type(error).__name__}: {error}"
print(json.dumps(answers))
"""
_OTHER_TOKENIZERS = {
    "do_lower_case": False,
    "keep_accents": True,
    "model_max_length": 5,
    "max_len": 5,
    "truncation_side": "left",
    "padding_side": "left",
    "split_special_tokens": True,
    "add_prefix_space": False,
    "additional_special_tokens": ["[E1]"],
    "extra_special_tokens": ["[E1]"],
    "add_bos_token": False,
    "add_eos_token": False,
    "cls_token": "<unk>",
    "sep_token": "<unk>",
    "mask_token": "<unk>",
    "pad_token": "<unk>",
    "unk_token": "<pad>",
    "bos_token": "<unk>",
    "eos_token": "<unk>",
    "remove_space": False,
    "clean_up_tokenization_spaces": True,
    "trim_offsets": False,
    "max_length": 5,
    "stride": 2,
    "truncation_strategy": "only_first",
    "padding": "max_length",
    "pad_to_multiple_of": 8,
    "model_input_names": ["input_ids"],
    "legacy": True,
    "use_fast": False,
    "verbose": True,
    "backend": "tokenizers",
    "strip_accents": False,
    "tokenize_chinese_chars": False,
    "do_basic_tokenize": False,
    "never_split": ["snow"],
    "sp_model_kwargs": {"enable_sampling": True},
}
_TEXTS = ["The snow fell.", "Zoë was [E1] here", "A boy, or 25  girls ? " * 3]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["TokenizersBackend", "AlbertTokenizer"])
def test_each_key_of_a_tokenizer_is_equal_or_said(
    name, source, tiny_spm_model, tmp_path, caplog
):
    source = dataclasses.replace(
        source,
        vocabulary=str(tiny_spm_model),
        config=dataclasses.replace(source.config, vocab_size=300),
    )
    for key in ("", *_OTHER_TOKENIZERS):
        folder = tmp_path / (key or "plain")
        folder.mkdir()
        huggingface.write(str(folder), source)
        path = folder / "tokenizer_config.json"
        values = json.loads(path.read_text()) | {"tokenizer_class": name}
        if key:
            values[key] = _OTHER_TOKENIZERS[key]
        if key == "max_len":
            del values["model_max_length"]
        path.write_text(json.dumps(values))
    names = ["plain", *_OTHER_TOKENIZERS]

    answers = json.loads(
        run_transformers(
            _TOKENIZERS, tmp_path, json.dumps(names), json.dumps(_TEXTS)
        )
    )

    report = {}
    for key in names:
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            try:
                checkpoint = discovery.open(tmp_path / key)
                tokenizer = checkpoint.tokenizer
            except ValueError as error:
                assert key in str(error)
                report[key] = "refused"
                continue
        if caplog.text:
            report[key] = "said"
            continue
        length = checkpoint.max_seq_length
        rows = tokenizer.batch(_TEXTS, max_seq_length=length)
        found = [
            ids[mask > 0].tolist()
            for ids, mask in zip(
                rows["input_ids"], rows["input_mask"], strict=True
            )
        ]
        report[key] = found == answers[key] or (found, answers[key])
    wrong = {
        k: v for k, v in report.items() if v not in (True, "refused", "said")
    }
    assert not wrong
