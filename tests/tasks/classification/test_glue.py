import pytest

from albert_tf.metrics.classification import SCORES
from albert_tf.tasks import task_data
from albert_tf.tasks.classification import glue
from albert_tf.tasks.classification.glue import GLUE_DATASETS

# Rows of the published files in the folder of real data: train, dev, test.
NUM_ROWS = {
    "cola": (8551, 1043, 1063),
    "mrpc": (3668, 408, 1725),
    "rte": (2490, 277, 3000),
    "sst-2": (67349, 872, 1821),
    "sts-b": (5749, 1500, 1379),
    "wnli": (635, 71, 146),
    "qnli": (None, 5463, 5463),
}
SUBMISSIONS = {
    "cola": ["CoLA.tsv"],
    "sst-2": ["SST-2.tsv"],
    "mrpc": ["MRPC.tsv"],
    "sts-b": ["STS-B.tsv"],
    "qqp": ["QQP.tsv"],
    "mnli": ["MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv"],
    "mismnli": ["MNLI-mm.tsv"],
    "qnli": ["QNLI.tsv"],
    "rte": ["RTE.tsv"],
    "wnli": ["WNLI.tsv"],
    "ax": ["AX.tsv"],
}


def read(name, path, split):
    return glue.read_examples(GLUE_DATASETS[name], path, split)


def test_submissions_have_the_names_of_the_leaderboard():
    found = {
        name: [one.submission_file for one in dataset.files["predict"]]
        for name, dataset in GLUE_DATASETS.items()
    }

    assert found == SUBMISSIONS


@pytest.mark.parametrize("name", NUM_ROWS)
def test_every_published_row_is_read(name, shared_data):
    folder = shared_data / "data" / "glue"

    for (use, split), num_rows in zip(
        task_data.SPLITS.items(), NUM_ROWS[name], strict=True
    ):
        path = folder / GLUE_DATASETS[name].files[use][0].path
        if num_rows is not None:
            assert len(read(name, path, split)) == num_rows


def test_the_diagnostic_set_is_read_with_the_columns_of_mnli(shared_data):
    path = shared_data / "data" / "glue" / "diagnostic" / "diagnostic.tsv"

    assert len(read("mnli", path, "test")) == 1104


@pytest.mark.parametrize("name", ["mnli", "mismnli", "qnli", "qqp"])
def test_the_exact_layout_of_the_large_sets_is_read(name, shared_data):
    folder = shared_data / "data" / "glue_mini"
    files = GLUE_DATASETS[name].files

    for one in (*files["train"], *files["eval"]):
        examples = read(name, folder / one.path, "dev")
        assert all(example.label is not None for example in examples)
        assert all(example.text_b for example in examples)
    for one in files["predict"]:
        if not one.is_optional:
            (example,) = read(name, folder / one.path, "test")
            assert example.label is None


def test_torn_rows_of_qqp_are_counted(tmp_path, caplog):
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    path = tmp_path / "train.tsv"
    rows = ("1\t2\t3\twhy", "", "4\t5\t6\thow\twho\t1", "4\t5\t6\t7\t8\t9\t1")
    path.write_text(header + "\n".join(rows))

    examples = read("qqp", path, "train")

    assert [example.guid for example in examples] == ["4"]
    assert "skipped 3 rows with too few or too many fields" in caplog.text
    assert "(lines 2, 3, 5)" in caplog.text


def test_every_score_of_every_task_is_known():
    for dataset in GLUE_DATASETS.values():
        assert set(dataset.score_names) <= set(SCORES)
