import numpy as np
import pytest

import albert_tf
from albert_tf.checkpoints.metadata import Metadata
from tests.exported_models import write_checkpoint
from tests.inference.test_predictor import CONFIG, TEXTS


@pytest.fixture(scope="module")
def load(tiny_spm_model, tmp_path_factory):
    """Loads a model of vectors, with random weights of a seed."""

    def make(seed=0, **options):
        folder = tmp_path_factory.mktemp("vectors")
        write_checkpoint(
            folder,
            albert_tf.AlbertModel(CONFIG, seed=seed),
            vocabulary=str(tiny_spm_model),
            metadata=Metadata(settings={"pooling": "mean"}),
        )
        return albert_tf.load_predictor(folder, head="encoder", **options)

    return make


@pytest.fixture(scope="module")
def predictor(load):
    return load()


def test_a_search_finds_what_nearest_does(predictor):
    # The second is there twice: of equal texts, the first comes first.
    texts = [*TEXTS, TEXTS[1]]
    queries = ["The cat.", TEXTS[1]]
    index = predictor.index(texts)

    found = index.search(queries, 3)

    assert found == predictor.nearest(queries, texts, k=3)
    assert [one["index"] for one in found[1]][:2] == [1, 4]
    assert found[1][0]["score"] == pytest.approx(1)
    every = index.search(queries, k=99)
    assert [row[:3] for row in every] == found
    assert [*map(len, every)] == [len(index)] * 2 == [5, 5]
    np.testing.assert_array_equal(index.vectors[1], index.vectors[4])


def test_an_index_is_loaded_by_its_model_alone(predictor, load, tmp_path):
    index = predictor.index(TEXTS)
    index.save(tmp_path / "faq.npz")

    again = predictor.load_index(tmp_path / "faq.npz")

    assert again.search("The cat.") == index.search("The cat.")
    assert again.texts == TEXTS
    for other in (load(seed=1), load(pooling="cls")):
        with pytest.raises(ValueError, match="vectors of another model"):
            other.load_index(tmp_path / "faq.npz")


@pytest.mark.parametrize(
    "content",
    [b"", b"no index", {}, {"texts": b"[]"}, {"texts": b'["a", "b"]'}],
)
def test_a_damaged_index_is_one_line(content, predictor, tmp_path):
    path = tmp_path / "faq.npz"
    if isinstance(content, dict):
        arrays = {k: np.frombuffer(v, "uint8") for k, v in content.items()}
        np.savez(path, vectors=np.zeros((1, 2)), **arrays)
    else:
        path.write_bytes(content)

    with pytest.raises(ValueError, match="faq.npz is not an index of texts"):
        predictor.load_index(path)


def test_an_index_of_a_longer_length_is_refused(predictor, load, tmp_path):
    predictor.index(["a", "b", "c", "d", "the cat sat " * 9]).save(
        tmp_path / "faq.npz"
    )

    with pytest.raises(ValueError, match="vector for 'the cat sat the"):
        load(max_seq_length=8).load_index(tmp_path / "faq.npz")


class Table(list):
    """Iterates over the names of its columns, as a data frame does."""

    columns = ("text",)


@pytest.mark.parametrize(
    "texts", [[], "a text", {"text": ["a"]}, Table(["text"])]
)
def test_an_index_needs_a_list_of_texts(texts, predictor):
    with pytest.raises(ValueError, match="Pass a list of texts"):
        predictor.index(texts)
