import pytest

from albert_tf.tasks import custom_dataset


@pytest.fixture
def train_file(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("kind\ttext\nspam\ta\nham\tb\n")
    return path


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run"


def find(train_file, run, *, is_training=False, label_column="kind"):
    return custom_dataset.find_labels(
        train_file, label_column, run, is_training=is_training
    )


@pytest.mark.parametrize(
    ("labels", "headline", "num_scores"),
    [((), "pearson", 3), (("a", "b"), "accuracy", 3), ("abc", "accuracy", 2)],
)
def test_scores_follow_from_the_labels(labels, headline, num_scores):
    found = custom_dataset.score_names(labels)

    assert (found[0], len(found)) == (headline, num_scores)


def test_labels_to_learn_are_those_of_the_file(train_file, run):
    assert find(train_file, run, is_training=True) == ("ham", "spam")


def test_labels_that_were_learnt_are_those_of_the_run(train_file, run):
    custom_dataset.keep_labels(["spam", "ham", "é"], run)

    assert find(train_file, run) == ("spam", "ham", "é")
    assert find(None, run) == ("spam", "ham", "é")
    assert find(train_file, run, is_training=True) == ("ham", "spam")


def test_unknown_labels_are_an_error(run):
    with pytest.raises(ValueError, match="no labels.json in .*Pass --labels"):
        find(None, run)


def test_a_file_of_labels_needs_their_column(train_file, run):
    with pytest.raises(ValueError, match="Pass --label_column"):
        find(train_file, run, label_column=None)


def test_other_labels_than_those_that_were_learnt_are_refused(run):
    custom_dataset.check_labels(["a", "b"], run)
    custom_dataset.keep_labels(["a", "b"], run)

    custom_dataset.check_labels(["a", "b"], run)
    for labels in (["b", "a"], [], ["a", "b", "c"]):
        with pytest.raises(ValueError, match=r"has learnt 'a', 'b'"):
            custom_dataset.check_labels(labels, run)


def test_a_regression_is_kept_as_no_labels(run):
    custom_dataset.keep_labels((), run)

    assert find(None, run) == ()
    with pytest.raises(ValueError, match=r"has learnt numbers \(regression\)"):
        custom_dataset.check_labels(["a"], run)


@pytest.mark.parametrize("text", ["", "{}", "[1, 2]"])
def test_a_damaged_file_of_labels_is_refused(text, run):
    run.mkdir()
    (run / "labels.json").write_text(text)

    with pytest.raises(ValueError, match=r"labels.json is damaged"):
        find(None, run)
