import pytest

from albert_tf.tasks.classification import sets as sets_lib
from albert_tf.tasks.classification.examples import Columns
from albert_tf.tasks.classification.glue import GLUE_DATASETS
from albert_tf.tasks.classification.sets import FilesToRead

COLUMNS = Columns(texts=("text",), label="kind")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.tsv").write_text("kind\ttext\na\tone\nb\ttwo\n")
    (tmp_path / "test.jsonl").write_text('{"text": "three"}\n')
    return tmp_path


def read_custom(**wanted):
    return sets_lib.read_custom(COLUMNS, ("a", "b"), FilesToRead(**wanted))


def test_mnli_has_its_sets_by_name(shared_data):
    folder = shared_data / "data" / "glue_mini"
    wanted = FilesToRead(
        uses=["train", "eval", "predict"], data_dir=str(folder)
    )

    found = sets_lib.read_glue(GLUE_DATASETS["mnli"], wanted)

    names = {
        use: [(one.source.name, len(one.examples)) for one in sets]
        for use, sets in found.sets.items()
    }
    # The diagnostic set is not there, and is optional.
    assert names == {
        "train": [("", 3)],
        "eval": [("", 2), ("mismatched", 2)],
        "predict": [("", 1), ("mismatched", 1)],
    }
    assert found.labels == ("contradiction", "entailment", "neutral")


def test_a_named_file_takes_the_place_of_all_files_of_its_use(shared_data):
    path = shared_data / "data" / "glue_mini" / "MNLI" / "dev_mismatched.tsv"
    wanted = FilesToRead(uses=["eval"], named={"eval": str(path)})

    found = sets_lib.read_glue(GLUE_DATASETS["mnli"], wanted)

    (only,) = found.sets["eval"]
    assert (only.source.name, only.source.path) == ("", str(path))


def test_a_table_is_found_in_its_folder(folder):
    found = read_custom(uses=["train", "predict"], data_dir=str(folder))

    assert [e.label for e in found.sets["train"][0].examples] == [0, 1]
    assert [e.label for e in found.sets["predict"][0].examples] == [None]
    assert found.score_names[0] == "accuracy"


def test_only_what_is_used_is_read(folder):
    assert list(read_custom(uses=["train"], data_dir=str(folder)).sets) == [
        "train"
    ]
    with pytest.raises(FileNotFoundError, match=r"no dev\.tsv or dev\.jsonl"):
        read_custom(uses=["eval"], data_dir=str(folder))


@pytest.mark.parametrize("use", ["train", "eval", "predict"])
def test_without_folder_and_file_nothing_can_be_read(use):
    wanted = FilesToRead(uses=[use])
    message = f"--data_dir or --{use}_file must be given"

    with pytest.raises(ValueError, match=message):
        sets_lib.read_glue(GLUE_DATASETS["rte"], wanted)
    with pytest.raises(ValueError, match=message):
        read_custom(uses=[use])
