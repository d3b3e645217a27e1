import sys

import pytest

import albert_tf
from albert_tf.explain import __main__ as explain


@pytest.fixture
def run(classifier_folder, capsys):
    def start(*arguments, path=classifier_folder):
        code = explain.main([str(path), *arguments])
        return code, *capsys.readouterr()

    return start


def test_a_line_for_each_word_where_there_is_no_terminal(run):
    code, out, err = run("A house.", "--label=grün")

    title, *lines = out.splitlines()
    assert (code, err) == (0, "")
    assert title.startswith("probability of grün: 0.")
    assert [line.split()[1] for line in lines] == ["A", "house"]
    assert all(abs(float(line.split()[0])) <= 1 for line in lines)


def test_a_terminal_has_colors_and_obeys_no_text(run, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    code, out, _ = run("A \x1b[2J house.")

    assert code == 0
    assert "\x1b[2J" not in out and "\x1b[97;48;5;" in out
    assert "Each word was left out once" in out


def test_without_a_text_the_worst_errors_of_the_run_are_explained(
    run, classifier_folder
):
    (classifier_folder / "eval").mkdir()
    (classifier_folder / "eval" / "predictions.tsv").write_text(
        "index\tprediction\tlabel\ttext_a\ttext_b\n"
        "7\tham\tham\tA house.\t\n8\tham\tgrün\tThe cat sat.\tIt did.\n"
        "9\tham\tgrün\t\tNo first text.\n",
        encoding="utf-8",
    )

    code, out, _ = run()

    _, title, value, *lines = out.splitlines()
    assert (code, title) == (0, "id 8, label grün")
    assert value.startswith("probability of ")
    words = [line.split()[1] for line in lines[:5]]
    assert words == ["The", "cat", "sat", "It", "did"]
    # A text that is empty stays in its place.
    _, title, value, *_ = lines[5:]
    answer = albert_tf.load_predictor(classifier_folder).predict(
        ("", "No first text.")
    )
    assert title == "id 9, label grün"
    share = answer["probabilities"][answer["prediction"]]
    assert value == f"probability of {answer['prediction']}: {share:.4g}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "error: The files of the run have no labels beside"),
        (("...",), "error: There is no word to leave out. Pass a text"),
        (("a", "--label=x"), "error: `label` must be one of"),
    ],
)
def test_what_cannot_be_is_one_line(arguments, message, run):
    code, out, err = run(*arguments)

    assert (code, out) == (1, "")
    assert err.startswith(message) and err.count("\n") == 1
