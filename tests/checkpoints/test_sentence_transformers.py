"""Folders for sentence-transformers: what is in them, and read again."""

import json

import numpy as np
import pytest

import albert_tf
from albert_tf.checkpoints import discovery, huggingface
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.metadata import Metadata
from tests import tiny
from tests.checkpoints.weights import run_transformers, weights_of

CONFIG = tiny.config(vocab_size=300, max_position_embeddings=16)
TEXTS = ["The snow fell.", "A boy, or 25 girls?", "The old man sat. " * 9]

ASK = """
import json, sys, sentence_transformers
model = sentence_transformers.SentenceTransformer(sys.argv[1])
print(json.dumps(model.encode(json.loads(sys.argv[2])).tolist()))
"""


def write(folder, vocabulary, **settings):
    source = Checkpoint(
        arrays=weights_of(albert_tf.AlbertModel(CONFIG)),
        config=CONFIG,
        vocabulary=str(vocabulary),
        metadata=Metadata(settings=settings),
    )
    return huggingface.write(str(folder), source)


@pytest.mark.parametrize(
    ("pooling", "normalizes"), [("mean", False), ("cls", True)]
)
def test_pooling_normalization_and_length_are_written(
    pooling, normalizes, tmp_path, tiny_spm_model
):
    settings = {"pooling": pooling, "normalizes": normalizes}
    settings["max_seq_length"] = 9
    _, notes = write(tmp_path, tiny_spm_model, **settings)
    before = albert_tf.load_predictor(tmp_path).predict(TEXTS)

    # What sentence-transformers reads, alone.
    (tmp_path / "metadata.json").unlink()
    found = discovery.open(tmp_path)
    after = albert_tf.load_predictor(tmp_path).predict(TEXTS)

    assert found.settings == settings
    assert not [note for note in notes if "settings" in note.text]
    modules = json.loads((tmp_path / "modules.json").read_text())
    assert len(modules) == (3 if normalizes else 2)
    assert all((tmp_path / module["path"]).is_dir() for module in modules)
    size = json.loads((tmp_path / "1_Pooling" / "config.json").read_text())
    assert size["word_embedding_dimension"] == CONFIG.hidden_size
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one["vector"], other["vector"])


@pytest.mark.parametrize("settings", [{}, {"pooling": "mean and prompts"}])
def test_other_models_get_none_of_its_files(settings, tmp_path, tiny_spm_model):
    write(tmp_path, tiny_spm_model, **settings)

    assert not (tmp_path / "modules.json").exists()


@pytest.mark.slow
def test_the_vectors_are_those_of_sentence_transformers(
    tmp_path, tiny_spm_model
):
    write(tmp_path, tiny_spm_model, pooling="mean", normalizes=True)

    theirs = run_transformers(ASK, tmp_path, json.dumps(TEXTS))

    ours = albert_tf.load_predictor(tmp_path).predict(TEXTS)
    vectors = np.stack([one["vector"] for one in ours])
    np.testing.assert_allclose(vectors, json.loads(theirs), atol=1e-6)
