import itertools
import json
import os
import time

import load_generator
import pytest
import tensorflow as tf

REQUEST = {"text_a": "x", "text_b": ""}


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    """A model that refuses texts of more than 50,000 bytes."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)] * 2)
    def sizes(text_a, text_b):
        size = tf.strings.length(text_a) + tf.strings.length(text_b)
        tf.debugging.assert_less(size, 50_000, "a text is too long")
        return {"size": size}

    folder = str(tmp_path_factory.mktemp("export"))
    tf.saved_model.save(tf.Module(), folder, signatures=sizes)
    return folder


def _ask(request):
    if request == "refuse":
        raise load_generator.RefusedError("no")
    if request == "fail":
        raise OSError("gone")


def test_every_request_is_counted_as_what_it_is():
    outcomes = load_generator.run(
        _ask, ["answer", "refuse", "fail", "answer"], num_in_flight=3
    )
    summary = load_generator.summarize(outcomes[2:3], seconds=1)

    assert [(o.kind, o.message) for o in outcomes] == [
        ("answer", ""),
        ("refusal", "no"),
        ("failure", "OSError: gone"),
        ("answer", ""),
    ]
    # Without an answer there is no latency.
    assert not any("milliseconds" in name for name in summary)


def test_no_more_requests_are_in_flight_than_asked_for():
    in_flight, seen = [], []

    def send(request):
        in_flight.append(request)
        seen.append(len(in_flight))
        time.sleep(0.002)
        in_flight.remove(request)

    load_generator.run(send, range(50), num_in_flight=3)

    assert max(seen) == 3


def test_the_summary_counts_and_ranks():
    outcomes = [
        load_generator.Outcome(kind="answer", seconds=number / 100)
        for number in range(100, 0, -1)
    ]
    outcomes += [
        load_generator.Outcome(kind="refusal", seconds=9),
        load_generator.Outcome(kind="failure", seconds=9),
    ]

    # Answers took 10, 20 ... 1000 ms.
    assert load_generator.summarize(outcomes, seconds=51) == {
        "num_requests": 102,
        "num_answers": 100,
        "num_refusals": 1,
        "num_failures": 1,
        "seconds": 51,
        "requests_per_second": 2.0,
        "p50_milliseconds": 500.0,
        "p95_milliseconds": 950.0,
        "p99_milliseconds": 990.0,
    }


@pytest.mark.parametrize("task", load_generator.TASKS)
def test_plain_requests_are_those_of_the_task(task):
    requests = load_generator.make_requests(
        task, load_generator.PlainTexts(seed=1)
    )

    for request in itertools.islice(requests, 50):
        assert request.keys() == load_generator.TASKS[task].keys()
        for name, text in request.items():
            if name == "options":
                assert len(text) == 4
            else:
                words = text.split(" ")
                assert 1 <= len(words) <= load_generator.TASKS[task][name]


def test_hard_texts_are_of_every_size_and_of_any_bytes():
    make_text = load_generator.HardTexts(seed=1)

    texts = [make_text(1) for _ in range(300)]

    sizes = {len(text) for text in texts}
    assert min(sizes) == 0
    assert max(sizes) == 100_000
    assert any(10 < size < 100 for size in sizes)
    assert any(isinstance(t, str) and "\0" in t for t in texts)
    with pytest.raises(UnicodeDecodeError):
        b"".join(t for t in texts if isinstance(t, bytes)).decode()


def test_only_tensorflow_is_silenced(export, capfd):
    load_generator.ask_saved_model(export)

    os.write(2, b"a failure")

    assert capfd.readouterr().err == "a failure"


def test_hard_texts_may_be_refused(export, run_main):
    printed = run_main(
        load_generator, f"--saved_model={export}", "--num_requests=60", "--hard"
    )

    result = json.loads(printed.splitlines()[-1])
    assert result["num_failures"] == 0
    assert result["num_refusals"] > 0
    assert result["num_answers"] + result["num_refusals"] == 60


def test_a_rest_server_is_asked(rest_server, run_main):
    printed = run_main(
        load_generator,
        f"--rest={rest_server.address}",
        "--num_requests=20",
        "--num_warm_up=3",
    )

    assert json.loads(printed.splitlines()[-1])["num_answers"] == 20
    assert len(rest_server.requests) == 23


@pytest.mark.parametrize(
    ("code", "outcome", "message"),
    [
        (400, "refusal", "refusal: too long"),
        (503, "failure", "failure: HTTPError: HTTP Error 503"),
    ],
)
def test_plain_texts_may_not_be_refused(
    rest_server, run_main, capsys, code, outcome, message
):
    rest_server.answer = code, {"error": "too long"}
    flags = [f"--rest={rest_server.address}", "--num_requests=7"]

    with pytest.raises(SystemExit, match="1"):
        run_main(load_generator, *flags)

    captured = capsys.readouterr()
    assert json.loads(captured.out.splitlines()[-1])[f"num_{outcome}s"] == 7
    assert captured.err.count(message) == 5


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (["--saved_model=no"], "error: SavedModel file does not exist", ""),
        (["--rest=http://localhost:1/a"], "error: no answer .* refused$", ""),
        (["--rest=x"], "error: unknown url type: 'x'$", ""),
        ([], 2, "one of the arguments --saved_model --rest --grpc"),
        (["--rest=x", "--num_requests=0"], 2, "must be 1 or more, not 0"),
    ],
)
def test_a_bad_argument_is_named(run_main, capsys, flags, code, message):
    with pytest.raises(SystemExit, match=f"^{code}"):
        run_main(load_generator, *flags)

    assert message in capsys.readouterr().err
