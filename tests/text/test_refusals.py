"""What the readers of text refuse: one table of inputs and messages."""

import bz2
import sys

import pytest
from sentencepiece import sentencepiece_model_pb2

from albert_tf.text import tokenizer_json, vocabulary_training
from albert_tf.text.documents import CorpusSettings, Documents
from albert_tf.text.tokenizer import load_tokenizer
from albert_tf.text.vocabulary_file import TokenizerSettings


def read(path, **settings):
    return list(Documents(CorpusSettings(input_file=str(path), **settings)))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.txt", b"One.\nCaf\xe9.", r"a\.txt, line 2: not UTF-8.*max_bad_lin"),
        ("a.jsonl", b'{"text": "One."}\nTwo.', r"a\.jsonl', line 2 is no JSON"),
        ("a.jsonl", b'{"body": "One."}', "line 1 is no JSON object.*'text'"),
        ("a.jsonl", b'{"text": "\\ud800"}', "line 1 is no JSON.*surrogates"),
        ("a.txt", b"One.\0\n", r"a\.txt is not a text file"),
        ("a.txt.gz", b"", r"a\.txt\.gz' is empty, which no compressed"),
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
    path.write_bytes(b"One.")

    with pytest.raises(ImportError, match=rf"{name}' .*{package}.*`data`"):
        read(path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vocab_size": 5000}, "could not train: .* too high .* <= "),
        ({"vocab_size": 13}, "`vocab_size` must be .* at least 14"),
        ({"character_coverage": 0.5}, "`character_coverage` must be"),
        ({"input_sentence_size": 0}, "`input_sentence_size` must be"),
        ({"output_prefix": None}, "`output_prefix` must be given"),
        ({"max_bad_lines": -1}, "`max_bad_lines` must be"),
    ],
)
def test_a_vocabulary_that_cannot_be_trained_is_an_error(
    settings, message, tmp_path
):
    corpus = tmp_path / "c.txt"
    corpus.write_text("a b c")
    names = {"input_file": str(corpus), "output_prefix": str(tmp_path / "p")}

    with pytest.raises(ValueError, match=message):
        vocabulary_training.train(
            vocabulary_training.VocabularyTrainingConfig(**names | settings)
        )
    assert list(tmp_path.iterdir()) == [corpus]


@pytest.mark.parametrize(
    ("name", "file", "content", "message"),
    [
        ("spm_model_file", "x.model", "a\nb", r"x\.model'.* not a SentencePie"),
        ("spm_model_file", "tokenizer.json", "{", r"er\.json.* is damaged"),
        ("spm_model_file", "tokenizer.json", '{"model": {}}', "is damaged"),
        ("vocab_file", "x.txt", "a\nb", r"x\.txt: .* \[PAD\], \[UNK\], "),
        ("vocab_file", "x.vocab", "a\nb", r"x\.vocab: .* the \.model"),
        ("vocab_file", "nowhere.txt", None, r"nowhere\.txt"),
    ],
)
def test_a_vocabulary_that_cannot_be_used_is_an_error(
    tmp_path, name, file, content, message
):
    if content:
        (tmp_path / file).write_text(content)

    with pytest.raises((ValueError, FileNotFoundError), match=message):
        load_tokenizer(**{name: tmp_path / file})


def test_no_vocabulary_at_all_is_an_error():
    with pytest.raises(ValueError, match="No vocabulary is given"):
        load_tokenizer()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("[foo bar]", r"have no spaces\. Received: \[foo bar\]"),
        ("foo bar", "A new word has no spaces: 'foo bar'"),
        ("\u200d", "A new word has no spaces"),
    ],
)
def test_a_new_token_that_no_text_would_have_is_refused(
    name, message, wordpiece
):
    with pytest.raises(ValueError, match=message):
        wordpiece.with_tokens([name])


def test_a_model_whose_words_end_with_the_mark_is_an_error(
    tiny_spm_model, change_model
):
    def put_marks_at_ends(model):
        model.trainer_spec.treat_whitespace_as_suffix = True

    path = change_model(tiny_spm_model, put_marks_at_ends)

    with pytest.raises(ValueError, match="has treat_whitespace_as_suffix, but"):
        load_tokenizer(spm_model_file=path)


@pytest.mark.parametrize(
    ("spec", "name", "value", "message"),
    [
        ("trainer_spec", "model_type", 2, "with model_type=BPE"),
        ("trainer_spec", "byte_fallback", True, "with byte_fallback=true"),
        ("normalizer_spec", "add_dummy_prefix", False, "dummy_prefix=false"),
    ],
)
def test_a_model_that_is_more_than_its_pieces_gives_no_tokenizer_json(
    spec, name, value, message, tiny_spm_model
):
    model = sentencepiece_model_pb2.ModelProto.FromString(
        tiny_spm_model.read_bytes()
    )
    setattr(getattr(model, spec), name, value)

    with pytest.raises(ValueError, match=message):
        tokenizer_json.make(model.SerializeToString(), TokenizerSettings())
