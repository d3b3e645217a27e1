"""The container, the clients and the exporter agree on names and ports."""

import pathlib
import re
import urllib.parse

import pytest
import rest_client

from albert_tf.export import version_folder
from albert_tf.export.export_config import ExportConfig


@pytest.fixture(scope="module")
def compose():
    folder = pathlib.Path(rest_client.__file__).parent
    return (folder / "docker-compose.yml").read_text("utf-8")


def test_the_rest_client_asks_the_port_and_the_model_of_the_container(compose):
    address = urllib.parse.urlsplit(rest_client.ADDRESS)

    assert f'"{address.port}:{address.port}"' in compose
    name = address.path.rpartition("/")[2]
    assert f"MODEL_NAME: {name}\n" in compose
    assert f":/models/{name}:ro\n" in compose


def test_the_requests_that_warm_up_are_for_that_model(compose):
    config = ExportConfig(init_checkpoint="x", export_dir="y")

    assert f"MODEL_NAME: {config.model_name}\n" in compose


def test_the_batching_file_is_the_one_that_an_export_writes(compose):
    [path] = re.findall(r"--batching_parameters_file=(\S+)", compose)

    assert path == f"/models/albert/{version_folder.BATCHING_FILE}"
