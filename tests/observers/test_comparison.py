"""Runs side by side, from the files that they leave."""

import json

import pytest

from albert_tf.observers import comparison

# Of ten rows, the second run has nine right, the first one.
FIRST = "bbbbbbbbbb"
SECOND = "aaaaaaaaab"
LABELS = "aaaaaaaaaa"


@pytest.fixture
def make_run(tmp_path):
    """Writes a run with classes or with `files` as its answers."""

    def make(name, predictions="", *, labels=LABELS, texts=None, **known):
        folder = tmp_path / name
        (folder / "eval").mkdir(parents=True)
        flags = f"--output_dir={name}\n--learning_rate={len(name)}\n--do_eval\n"
        (folder / "flags.txt").write_text(flags)
        accuracy = {"accuracy": 0.912, "f1_of_a": 0.5, "global_step": 7}
        results = accuracy | known.get("results", {})
        evaluated = {
            "metric": "accuracy",
            "examples": len(predictions),
            "has_numbers": known.get("has_numbers", False),
        }
        content = json.dumps(results | {"evaluated": evaluated})
        (folder / "eval_results.json").write_text(content)
        lines = ["index\tprediction\tlabel\ttext_a\ttext_b"]
        for i, (prediction, label) in enumerate(
            zip(predictions, labels, strict=False)
        ):
            text = f"text {i}" if texts is None else texts
            lines.append(f"dev-{i}\t{prediction}\t{label}\t{text}\tand")
        for file, text in known.get(
            "files", {"SST-2.tsv": "\n".join([*lines, ""])}
        ).items():
            (folder / "eval" / file).write_text(text)
        (folder / "eval" / "test_results.tsv").write_text("0.5\t0.5\n")
        return str(folder)

    return make


def rows_of(table):
    """The rows of a table, by their first cell, as dicts."""
    _, *names = table["header"]
    return {
        first: dict(zip(names, cells, strict=True))
        for first, *cells in table["rows"]
    }


def test_the_scores_settings_and_answers_of_two_runs(make_run):
    ends = {"low": 0.893, "high": 0.9314}
    interval = {f"accuracy_interval_{end}": x for end, x in ends.items()}
    first = make_run("one", FIRST, results=interval)

    by_run, differing = comparison.sections([first, make_run("second", SECOND)])

    rows = rows_of(by_run)
    assert [*rows] == ["one", "second"]
    assert rows["one"]["accuracy"] == "0.912 (0.893 to 0.9314)"
    assert rows["second"]["accuracy"] == "0.912"
    assert rows["one"]["--learning_rate"] == "3"
    # What is the same, or always another, is no setting that differs; details
    # are in the files.
    others = {"--do_eval", "--output_dir", "f1_of_a", "global_step"}
    assert not others & {*by_run["header"]}
    # 9 of 9 heads of a fair coin, or tails: 2 / 2^9.
    # Answers may be of thresholds, which accuracy does not use.
    right = [row["answers that are right"] for row in rows.values()]
    assert right == ["0 of 10", "9 of 10"]
    assert rows["second"]["only it is right"] == "9"
    assert rows["second"]["only the first"] == "0"
    assert float(rows["second"]["p"]) == pytest.approx(2 / 2**9, rel=1e-2)
    assert rows["second"]["against the first"].startswith("better, more than")
    assert differing["title"].startswith("9 of 10 answers differ")
    assert rows_of(differing)["dev-0"] == {
        "text": "text 0 | and",
        "label": "a",
        "one": "b",
        "second": "a",
    }
    lines = comparison.as_text([by_run, differing]).splitlines()
    # The difference and whether it is chance come first.
    assert [line.split("  ")[0] for line in lines[1:5]] == [
        "run",
        "against the first",
        "difference",
        "p",
    ]
    assert lines[3].endswith("+0 accuracy")
    assert any(
        line.startswith("accuracy ") and "0.912 (0.893 to 0.9314)" in line
        for line in lines
    )


def test_a_comparison_of_many_runs_fits_a_terminal(make_run):
    paths = [
        make_run(f"{name}{'=long' * 9}", SECOND, texts="a long text " * 20)
        for name in "abcdefgh"
    ]

    text = comparison.as_text(
        comparison.sections([make_run("1", FIRST), *paths])
    )

    # The title has a path of any length.
    assert max(map(len, text.splitlines()[1:])) <= 100
    assert text.count("\nrun ") == 3
    for name in "abcdefgh":
        assert f"{name}=long" in text


@pytest.mark.parametrize(
    ("first", "second", "gains", "losses"),
    [
        ("abbbbbbaaaaa", "baaaaaaaaaaa", 6, 1),
        ("abbbbbbbbbbb", "bbbbbbbbbbba", 1, 1),
        ("abbbbbbbbbbb", "abbbbbbbbbbb", 0, 0),
    ],
)
def test_few_answers_that_differ_may_be_chance(
    first, second, gains, losses, make_run
):
    answers = {"one": first, "two": second}
    paths = [make_run(n, x, labels="a" * 12) for n, x in answers.items()]

    row = rows_of(comparison.sections(paths)[0])["two"]

    assert row["only it is right"] == str(gains)
    assert row["only the first"] == str(losses)
    # Of 7 that differ, at most 1 is on one side: 2 * (1 + 7) / 2^7.
    assert float(row["p"]) == (0.125 if gains == 6 else 1)
    assert row["against the first"] == "may be chance"


@pytest.mark.parametrize(
    "changes",
    [
        {"labels": "aaaaaaaaab"},
        {"texts": "another"},
        {"predictions": "aaaaaaaaa"},
    ],
)
def test_other_rows_are_never_compared(changes, make_run):
    paths = [
        make_run("one", FIRST),
        make_run("two", **{"predictions": SECOND} | changes),
        make_run("three", SECOND),
    ]

    by_run, differing = comparison.sections(paths)

    rows = rows_of(by_run)
    assert rows["two"]["against the first"].startswith("not compared: other")
    assert rows["two"]["p"] == ""
    assert rows["three"]["p"] != ""
    assert differing["header"] == ("id", "text", "label", "one", "three")
    assert len(comparison.sections(paths[:2])) == 1


def test_answers_of_other_tasks(make_run):
    choices = [
        json.dumps(
            {"id": "q1", "prediction": p, "answer": "A", "question": "Who?"}
        )
        for p in "AB"
    ]
    spans = [json.dumps({"q1": text, "q2": "same"}) for text in ("Ann", "Bob")]
    entities = json.dumps({"id": "1", "entities": []})
    cases = {
        "predictions.jsonl": choices,
        "predictions.json": spans,
        "others.jsonl": [entities, entities],
    }
    found = {}
    for file, texts in cases.items():
        paths = [
            make_run(f"{file}-{i}", files={file: f"{text}\n"})
            for i, text in enumerate(texts)
        ]
        found[file] = comparison.sections(paths)

    by_run, differing = found["predictions.jsonl"]
    assert rows_of(by_run)["predictions.jsonl-1"]["only the first"] == "1"
    assert [*differing["rows"][0]] == ["q1", "Who?", "A", "A", "B"]
    for file in ("predictions.json", "others.jsonl"):
        [by_run] = found[file]
        [_, row] = rows_of(by_run).values()
        assert row["against the first"].startswith("not tested")


def test_numbers_are_neither_right_nor_wrong(make_run):
    answers = {"one": "123", "two": "456"}
    paths = [
        make_run(name, numbers, labels="123", has_numbers=True)
        for name, numbers in answers.items()
    ]

    others = {"labels": "124", "has_numbers": True}
    paths.append(make_run("three", "456", **others))

    [by_run] = comparison.sections(paths)

    _, two, three = rows_of(by_run).values()
    assert two["against the first"].startswith("not tested")
    assert two["difference"] == "+0 accuracy"
    assert three["against the first"].startswith("not compared: other ids")
    assert three["difference"] == ""


def test_a_run_that_comes_twice_or_was_not_evaluated(make_run, tmp_path):
    one = make_run("one", FIRST)
    (tmp_path / "link").symlink_to(one)

    for other in (one, f"{one}/", str(tmp_path / "link")):
        with pytest.raises(ValueError, match="Pass each run once"):
            comparison.sections([one, other])
    with pytest.raises(ValueError, match="is not a run that has been"):
        comparison.sections([one, str(tmp_path / "nowhere")])


def test_runs_of_different_folders_and_failed_ones(make_run, tmp_path):
    paths = [make_run("x/run", FIRST), make_run("y/run", SECOND)]
    failed = {str(tmp_path / "z" / "run"): "The loss is nan."}

    [by_run, _] = comparison.sections(paths, failed)

    rows = rows_of(by_run)
    assert [*rows] == ["x/run", "y/run", "z/run"]
    assert rows["z/run"]["against the first"] == "The loss is nan."
    assert rows["z/run"]["accuracy"] == ""
