"""The container, the clients and the exporter agree on names and ports."""

import pathlib
import re
import subprocess
import urllib.parse

import pytest
import rest_client
import yaml

from albert_tf.export import version_folder
from albert_tf.export.export_config import ExportConfig

FOLDER = pathlib.Path(rest_client.__file__).parent


@pytest.fixture(scope="module")
def compose():
    return (FOLDER / "docker-compose.yml").read_text("utf-8")


def test_container_client_and_export_agree_on_names_and_ports(compose):
    address = urllib.parse.urlsplit(rest_client.ADDRESS)
    name = address.path.rpartition("/")[2]
    config = ExportConfig(init_checkpoint="x", export_dir="y")
    [path] = re.findall(r"--batching_parameters_file=(\S+)", compose)

    assert f'"127.0.0.1:{address.port}:{address.port}"' in compose
    assert f"MODEL_NAME: {name}\n" in compose
    assert f":/models/{name}:ro\n" in compose
    assert name == config.model_name  # of the requests that warm up
    assert path == f"/models/albert/{version_folder.BATCHING_FILE}"


def test_kubernetes_serves_as_the_container_does(compose):
    deployment, settings, service = yaml.safe_load_all(
        (FOLDER / "kubernetes.yaml").read_text("utf-8")
    )
    pod = deployment["spec"]["template"]
    [server] = pod["spec"]["containers"]
    probe = server["readinessProbe"]["exec"]["command"]
    theirs = yaml.safe_load(compose)["services"]["albert"]

    assert probe == theirs["healthcheck"]["test"][1:]
    assert set(theirs["command"]) - {"--enable_model_warmup=true"} <= {
        *server["args"]
    }
    assert service["spec"]["selector"] == pod["metadata"]["labels"]
    monitoring = (FOLDER / "monitoring.config").read_text("utf-8")
    assert settings["data"]["monitoring.config"] in monitoring


def test_the_server_understands_the_file_of_versions():
    from google.protobuf import text_format
    from tensorflow_serving.config import model_server_config_pb2

    text = (FOLDER / "models.config").read_text("utf-8")
    empty = model_server_config_pb2.ModelServerConfig()
    [model] = text_format.Parse(text, empty).model_config_list.config

    served = model.model_version_policy.specific.versions
    assert (model.name, model.base_path) == ("albert", "/models/albert")
    assert {*model.version_labels.values()} == {*served}


@pytest.mark.parametrize(
    ("state", "is_healthy"), [("AVAILABLE", True), ("LOADING", False)]
)
def test_the_container_is_healthy_once_the_model_is_loaded(
    compose, rest_server, state, is_healthy
):
    rest_server.status = {"model_version_status": [{"state": state}]}
    check = yaml.safe_load(compose)["services"]["albert"]["healthcheck"]
    kind, *command = check["test"]
    assert kind == "CMD"
    command = [part.replace("8501", rest_server.port) for part in command]

    done = subprocess.run(command, check=False, timeout=60)

    assert (done.returncode == 0) == is_healthy
    assert not rest_server.requests
