import base64
import json
import urllib.error

import pytest
import rest_client


def test_the_request_has_the_signature_and_the_instances(rest_server):
    predictions = rest_client.predict(
        rest_server.address, [{"text_a": "é", "text_b": ""}]
    )

    assert predictions == [{"score": 0.5}]
    assert rest_server.requests == [
        (
            "/v1/models/albert:predict",
            {
                "signature_name": "serving_default",
                "instances": [{"text_a": "é", "text_b": ""}],
            },
        )
    ]


def test_bytes_travel_as_base64(rest_server):
    content = b"\xff\0"

    rest_client.predict(
        rest_server.address,
        [{"question": content, "options": ["a", content]}],
        signature_name="other",
    )

    [(_, body)] = rest_server.requests
    encoded = {"b64": base64.b64encode(content).decode()}
    assert body["signature_name"] == "other"
    assert body["instances"] == [
        {"question": encoded, "options": ["a", encoded]}
    ]


def test_a_refusal_is_an_error_with_the_reason(rest_server):
    rest_server.answer = 400, {"error": "no such input"}

    with pytest.raises(urllib.error.HTTPError, match="400") as found:
        rest_client.predict(rest_server.address, [{}])

    assert json.load(found.value) == {"error": "no such input"}


def test_the_command_prints_the_outputs(rest_server, run_main):
    rest_server.answer = 200, {"predictions": [{"answer": "é"}]}

    printed = run_main(
        rest_client, f"--address={rest_server.address}", '{"text_a": "x"}'
    )

    assert printed == '{"answer": "é"}\n'
    [(_, body)] = rest_server.requests
    assert body["instances"] == [{"text_a": "x"}]


@pytest.mark.parametrize(
    ("instance", "message"),
    [
        ('{"text_a": 1}', "error: no such input"),
        ("{", "error: Expecting property name"),
    ],
)
def test_an_error_is_one_line(rest_server, run_main, instance, message):
    rest_server.answer = 400, {"error": "no such input"}

    with pytest.raises(SystemExit, match=message):
        run_main(rest_client, f"--address={rest_server.address}", instance)


def test_no_server_is_one_line(run_main):
    with pytest.raises(SystemExit, match=r"error: <urlopen error .*refused"):
        run_main(rest_client, "--address=http://localhost:1/v1/models/a", "{}")
