import base64

import pytest
import rest_client


def test_text_travels_as_it_is_and_bytes_as_base64(rest_server):
    content = b"\xff\0"

    predictions = rest_client.predict(
        rest_server.address,
        [{"question": "é", "options": ["a", content]}],
        signature_name="other",
    )

    assert predictions == [{"score": 0.5}]
    encoded = {"b64": base64.b64encode(content).decode()}
    assert rest_server.requests == [
        (
            "/v1/models/albert:predict",
            {
                "signature_name": "other",
                "instances": [{"question": "é", "options": ["a", encoded]}],
            },
        )
    ]


def test_a_large_batch_is_several_requests(rest_server):
    instances = [{"text_a": str(number)} for number in range(7)]

    predictions = rest_client.predict(
        rest_server.address, instances, max_batch_size=3
    )

    parts = [body["instances"] for _, body in rest_server.requests]
    assert [len(part) for part in parts] == [3, 3, 1]
    assert sum(parts, []) == instances
    # The server has one answer for each request.
    assert predictions == [{"score": 0.5}] * 3


def test_the_command_prints_the_outputs(rest_server, run_main):
    rest_server.answer = 200, {"predictions": [{"answer": "é"}]}

    printed = run_main(
        rest_client, f"--address={rest_server.address}", '{"text_a": "x"}'
    )

    assert printed == '{"answer": "é"}\n'
    [(_, body)] = rest_server.requests
    assert body == {
        "signature_name": "serving_default",
        "instances": [{"text_a": "x"}],
    }


REFUSED = 400, {"error": "no such\n\tinput"}


@pytest.mark.parametrize(
    ("answer", "instance", "message"),
    [
        (REFUSED, '{"text_a": 1}', "no such input"),
        (REFUSED, "{", "the instance is not JSON: Expecting property name.*"),
        (REFUSED, '[{"text_a": "x"}]', r".* a JSON object .* Received: \[{.*"),
        ((200, {"predictions": [{"error": "no", "n": 0}]}), "{}", "no"),
        # Another server.
        ((502, "sorry"), "{}", ".*HTTP Error 502: Bad Gateway.*"),
        (
            (200, {"outputs": 1}),
            "{}",
            ".*albert is not a model of TF.*outputs.*",
        ),
    ],
)
def test_an_error_is_one_line(rest_server, run_main, answer, instance, message):
    rest_server.answer = answer

    with pytest.raises(SystemExit, match=f"^error: {message}$"):
        run_main(rest_client, f"--address={rest_server.address}", instance)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("http://localhost:1/v1/models/a", "no answer .*: .Errno.* refused$"),
        ("localhost", "no answer from localhost: unknown url type"),
    ],
)
def test_no_server_is_one_line(run_main, address, message):
    with pytest.raises(SystemExit, match=f"^error: {message}"):
        run_main(rest_client, f"--address={address}", "{}")
