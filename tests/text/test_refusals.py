"""What the readers of text refuse: one table of inputs and messages."""

import bz2
import json
import sys

import pytest

from albert_tf.text.documents import CorpusSettings, Documents
from albert_tf.text.tokenizer import load_tokenizer


def read(path, **settings):
    return list(Documents(CorpusSettings(input_file=str(path), **settings)))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.txt", b"One.\nCaf\xe9.", r"a\.txt, line 2: not UTF-8.*max_bad_lin"),
        ("a.jsonl", b'{"text": "One."}\nTwo.', r"a\.jsonl', line 2 is no JSON"),
        ("a.jsonl", b'{"body": "One."}', "line 1 is no JSON object.*'text'"),
        ("a.jsonl", b'{"text": 1}', "line 1 is no JSON.*int instead of a text"),
        ("a.jsonl", b'{"text": "\\ud800"}', "line 1 is no JSON.*surrogates"),
        # One value over many lines.
        ("a.json", json.dumps([{}], indent=1).encode(), "line 1 is no JSON"),
        ("a.txt.bz2", bz2.compress(b"One.\n")[:-4], r"bz2': the compressed"),
        ("a.parquet", b"One.", r"a\.parquet' is not a Parquet file"),
        ("a.xml", b"One.", r"a\.xml', after page 0: damaged, or no XML"),
    ],
)
def test_bad_text_is_an_error_that_names_the_place(
    tmp_path, name, data, message
):
    if name == "a.parquet":
        pytest.importorskip("pyarrow")
    if name == "a.xml":
        pytest.importorskip("mwparserfromhell")
    path = tmp_path / name
    path.write_bytes(data)

    with pytest.raises(ValueError, match=message):
        read(path)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"body": ["One."], "id": [1]}, "no column 'text'.* columns: body, id"),
        ({"text": [1]}, "row 1 has no text.*int instead of a text"),
        ({"text": ["One.", None]}, "row 2 has no text.*max_bad_lines"),
    ],
)
def test_a_column_that_is_not_text_is_an_error(tmp_path, columns, message):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table(columns), path)

    with pytest.raises(ValueError, match=message):
        read(path)


@pytest.mark.parametrize(
    ("name", "module", "package"),
    [
        ("a.zst", "backports", "backports.zstd"),
        ("a.parquet", "pyarrow", "pyarrow"),
        ("a.xml", "mwparserfromhell", "mwparserfromhell"),
    ],
)
def test_a_missing_package_is_an_error_that_names_its_extra(
    tmp_path, monkeypatch, name, module, package
):
    monkeypatch.setitem(sys.modules, module, None)
    path = tmp_path / name
    path.write_bytes(b"")

    with pytest.raises(ImportError, match=rf"{name}' .*{package}.*`data`"):
        read(path)


@pytest.mark.parametrize("value", [-1, 0.5, True])
def test_an_impossible_number_of_bad_lines_is_an_error(value):
    with pytest.raises(ValueError, match="`max_bad_lines` must be"):
        CorpusSettings(max_bad_lines=value)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("spm_model_file", b"", r"x\.model'.* not a SentencePiece"),
        ("spm_model_file", b"model", r"x\.model'.* not a SentencePiece"),
        ("spm_model_file", None, "nowhere"),
        ("vocab_file", b"a\nb", r"x\.model: .* \[PAD\], \[UNK\], "),
        ("vocab_file", None, "nowhere"),
    ],
)
def test_a_vocabulary_that_cannot_be_used_is_an_error(
    tmp_path, name, data, message
):
    path = tmp_path / ("nowhere" if data is None else "x.model")
    if data is not None:
        path.write_bytes(data)

    with pytest.raises((ValueError, FileNotFoundError), match=message):
        load_tokenizer(**{name: path})


def test_no_vocabulary_at_all_is_an_error():
    with pytest.raises(ValueError, match="No vocabulary is given"):
        load_tokenizer()


@pytest.mark.parametrize("text", ["{}", '{"model": 1}', '{"model": {}}', "{"])
def test_a_damaged_tokenizer_json_is_an_error(text, tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(text)

    with pytest.raises(ValueError, match=r"tokenizer\.json.* is damaged"):
        load_tokenizer(spm_model_file=path)
