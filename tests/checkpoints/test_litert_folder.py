"""What lies beside an exported LiteRT model."""

import dataclasses
import json

import pytest

from albert_tf.checkpoints import discovery, litert_folder
from albert_tf.checkpoints.metadata import Metadata


def test_what_is_written_beside_a_model_is_read(
    source, tmp_path, tiny_spm_model
):
    known = Metadata(head="span", do_lower_case=True)
    source = dataclasses.replace(
        source, vocabulary=str(tiny_spm_model), metadata=known
    )
    (tmp_path / "model.tflite").touch()

    litert_folder.write_beside(str(tmp_path), source, {"max_seq_length": 5})

    found = discovery.open(tmp_path)
    assert (found.config, found.metadata) == (source.config, known)
    assert found.settings == {"max_seq_length": 5}
    assert found.head().name == "span"
    assert (
        found.load_tokenizer().fingerprint
        == source.load_tokenizer().fingerprint
    )
    with pytest.raises(ValueError, match="which only `load_predictor` runs"):
        found.head("classifier")


def test_an_export_of_an_older_version_passes_for_a_run(tmp_path):
    settings = {"max_seq_length": 9}
    (tmp_path / "run.json").write_text(json.dumps({"settings": settings}))
    (tmp_path / "model.tflite").touch()

    found = discovery.open(tmp_path)

    assert found.settings == settings
    with pytest.raises(ValueError, match="which only `load_predictor` runs"):
        found.head()
