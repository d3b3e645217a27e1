"""Flags without a field of their own, and the scores that are printed."""

import pytest

from albert_tf import config
from albert_tf.cli import flags as cli_flags
from albert_tf.cli import training


def define_flags():
    cli_flags.flags.DEFINE_string("output_dir", None, "")
    cli_flags.flags.DEFINE_string("tpu_name", None, "")
    training.define_flags()


GIVEN = ("--albert_config_file=base_v2", "--output_dir=run")


def test_a_published_config_is_read_by_its_name(parse):
    found = training.read(parse(define_flags, *GIVEN))

    assert found["albert_config"] == config.published_config("base_v2")
    assert "strategy" not in found


def test_a_config_is_read_from_its_file(parse, tmp_path):
    path = tmp_path / "config.json"
    config.AlbertConfig(vocab_size=9).to_json_file(path)

    values = parse(define_flags, *GIVEN, f"--albert_config_file={path}")

    assert training.read(values)["albert_config"].vocab_size == 9


def test_use_tpu_is_a_strategy_and_master_a_name(parse):
    values = parse(define_flags, *GIVEN, "--use_tpu", "--master=grpc://there")

    assert training.read(values)["strategy"] == "tpu"
    assert values.tpu_name == "grpc://there"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            [],
            ValueError,
            "--albert_config_file and --output_dir must be given",
        ),
        (GIVEN[:1], ValueError, "--output_dir must be given"),
        (
            [*GIVEN, "--albert_config_file=base_v3"],
            FileNotFoundError,
            "base_v3.*base_v2",
        ),
    ],
)
def test_what_is_missing_is_named(arguments, error, message, parse):
    with pytest.raises(error, match=message):
        training.read(parse(define_flags, *arguments))


def test_scores_are_printed_one_a_line(capsys):
    training.print_scores({"f1": 50.0, "accuracy": 1 / 3})
    training.print_scores(None)

    assert capsys.readouterr().out == "f1 = 50\naccuracy = 0.333333\n"
