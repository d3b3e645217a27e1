import pytest

from albert_tf.tasks.classification import custom


@pytest.fixture
def train_file(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("kind\ttext\nspam\ta\nham\tb\n")
    return path


def find(train_file, kept=None, *, is_training=False, label_column="kind"):
    return custom.find_labels(
        train_file, label_column, kept, is_training=is_training
    )


@pytest.mark.parametrize(
    ("labels", "primary_metric", "num_scores"),
    [((), "pearson", 3), (("a", "b"), "accuracy", 3), ("abc", "accuracy", 2)],
)
def test_scores_follow_from_the_labels(labels, primary_metric, num_scores):
    found = custom.score_names(labels)

    assert (found[0], len(found)) == (primary_metric, num_scores)


def test_labels_to_learn_are_those_of_the_file(train_file):
    kept = ["spam", "ham"]

    assert find(train_file, kept, is_training=True) == ("ham", "spam")


@pytest.mark.parametrize("kept", [["spam", "ham", "é"], []])
def test_labels_that_were_learnt_are_those_of_the_run(kept, train_file):
    assert find(train_file, kept) == tuple(kept)
    assert find(None, kept) == tuple(kept)


def test_unknown_labels_are_an_error():
    with pytest.raises(ValueError, match="no run in --output.*Pass --labels"):
        find(None)


def test_a_file_of_labels_needs_their_column(train_file):
    with pytest.raises(ValueError, match="Pass --label_column"):
        find(train_file, label_column=None)


def test_other_labels_than_those_that_were_learnt_are_refused():
    custom.check_labels(["a", "b"], None, "run")
    custom.check_labels(["a", "b"], ["a", "b"], "run")

    for labels in (["b", "a"], [], ["a", "b", "c"]):
        with pytest.raises(ValueError, match=r"'run' has learnt 'a', 'b'"):
            custom.check_labels(labels, ["a", "b"], "run")
    with pytest.raises(ValueError, match=r"has learnt numbers \(regression\)"):
        custom.check_labels(["a"], [], "run")
