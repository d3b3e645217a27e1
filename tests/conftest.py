"""Fixtures that every test may use."""

import functools
import gc
import os
import pathlib

import pytest
import tensorflow as tf
from absl import flags
from sentencepiece import sentencepiece_model_pb2

from albert_tf.devices import strategies
from albert_tf.devices.device_settings import DeviceSettings
from albert_tf.text import vocabulary_training

# Two CPUs for the tests with two replicas, before anything asks for devices.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
)
pytest_plugins = ["tests.exported_models"]
_FIXTURES = pathlib.Path(__file__).resolve().parent / "fixtures"
_BESIDE = pathlib.Path(__file__).resolve().parents[2] / "shared"


def pytest_collection_finish():
    """Spares the garbage collector what was imported: a tenth of the time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def two_replicas():
    """A strategy over two virtual devices."""
    return strategies.create_strategy(DeviceSettings(strategy="mirrored"))


@pytest.fixture(scope="session")
def shared_data() -> pathlib.Path:
    """The folder of real data and recorded numbers; skips without it."""
    folder = pathlib.Path(os.environ.get("ALBERT_TF_TEST_DATA", _BESIDE))
    if not (folder / "golden").is_dir():
        pytest.skip(
            f"no test data at {folder}; set ALBERT_TF_TEST_DATA to its folder"
        )
    return folder


@pytest.fixture(scope="session")
def tiny_corpus() -> pathlib.Path:
    """60 English sentences in 8 documents, one sentence a line."""
    return _FIXTURES / "corpus.txt"


@pytest.fixture(scope="session")
def tiny_spm_model(
    tiny_corpus: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> pathlib.Path:
    """A SentencePiece model of 300 tokens, made from `tiny_corpus`."""
    prefix = tmp_path_factory.mktemp("vocabulary") / "tiny"
    vocabulary_training.train(
        vocabulary_training.VocabularyTrainingConfig(
            input_file=str(tiny_corpus),
            output_prefix=str(prefix),
            vocab_size=300,
        )
    )
    return prefix.with_suffix(".model")


@pytest.fixture
def change_model(tmp_path):
    """A function that writes a changed copy of a SentencePiece model."""

    def change(model_file, edit):
        model = sentencepiece_model_pb2.ModelProto.FromString(
            model_file.read_bytes()
        )
        edit(model)
        path = tmp_path / "changed.model"
        path.write_bytes(model.SerializeToString())
        return path

    return change


@pytest.fixture
def parse():
    """Parses flags in this process, apart from absl's own FLAGS."""

    def parse_flags(define_flags, *arguments):
        values = flags.FlagValues()
        with pytest.MonkeyPatch.context() as patch:
            for name in filter(lambda n: n.startswith("DEFINE"), dir(flags)):
                define = getattr(flags, name)
                define = functools.partial(define, flag_values=values)
                patch.setattr(flags, name, define)
            define_flags()
        assert values(["command", *arguments]) == ["command"]
        return values

    return parse_flags
