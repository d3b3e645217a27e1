"""The experiments as they are planned; none of these tests trains."""

import dataclasses
import json
import re

import pytest

from albert_tf.training.pretrain_config import PretrainingConfig
from experiments import program, report, runs
from experiments.program import EXPERIMENTS
from experiments.scales import SCALES

PLANS = [
    (name, scale)
    for name in EXPERIMENTS
    for scale in ("tiny", "small", "paper")
]


def _flags_of(command):
    found = {}
    for word in command[2:]:
        name, equals, value = word.removeprefix("--").partition("=")
        if not equals and name.startswith("no"):
            name, value = name.removeprefix("no"), False
        found[name] = value if equals else value is not False
    return found


@pytest.mark.parametrize(("name", "scale"), PLANS)
def test_the_commands_of_all_models_can_be_given(name, scale, tmp_path):
    scale = SCALES[scale]
    variants = EXPERIMENTS[name].variants(scale)

    names = [one.name for one in variants]
    assert len(set(names)) == len(names)
    for number, variant in enumerate(variants):
        assert variant.starts_from in ("", *names[:number])
        *_, train = runs.commands_of(variant, scale, tmp_path, tmp_path, seed=1)
        given = _flags_of(train)
        known = {f.name for f in dataclasses.fields(PretrainingConfig)}
        assert set(given) <= known | {"albert_config_file"}
        config = PretrainingConfig(
            albert_config=variant.config,
            output_dir=given["output_dir"],
            input_file=given["input_file"],
            max_seq_length=int(given["max_seq_length"]),
            length_schedule=given.get("length_schedule", ""),
            num_train_steps=int(given["num_train_steps"]),
            num_warmup_steps=int(given["num_warmup_steps"]),
            train_batch_size=int(given["train_batch_size"]),
            time_budget=given.get("time_budget", ""),
        )
        assert config.phases


def test_models_differ_in_what_is_compared_alone():
    for name in ("sharing", "embedding_size"):
        for one in EXPERIMENTS[name].variants(SCALES["tiny"]):
            plain = dataclasses.replace(
                SCALES["tiny"].config,
                parameter_sharing=one.config.parameter_sharing,
                num_hidden_groups=one.config.num_hidden_groups,
                embedding_size=one.config.embedding_size,
            )
            assert one.config == plain


def test_one_document_in_forty_is_held_out(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join(f"Text {i}.\nMore." for i in range(80)) + "\n")

    train, held_out = program.split(str(path))

    assert re.findall(r"Text (\d+)", held_out) == ["20", "60"]
    assert len(train.split("\n\n")) == 78


def test_a_text_too_short_to_hold_out_is_refused(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("One.\n\nTwo.\n")

    with pytest.raises(ValueError, match="fewer than 21 documents"):
        program.split(str(path))


def test_a_folder_is_that_of_one_scale_and_text(tmp_path):
    folder = tmp_path / "results"
    program.claim(folder, SCALES["tiny"], None)
    program.claim(folder, SCALES["tiny"], None)

    with pytest.raises(ValueError, match="has the results of .*'tiny'"):
        program.claim(folder, SCALES["small"], None)
    with pytest.raises(ValueError, match="has the results of"):
        program.claim(folder, SCALES["tiny"], "other.txt")
    with pytest.raises(ValueError, match="contains files but no"):
        program.claim(tmp_path, SCALES["tiny"], None)


def test_the_report_has_medians_and_the_paper_s_numbers(tmp_path):
    results = [
        {
            "name": "all",
            "seed": seed,
            "parameters": 12345,
            "seconds": 60.0,
            "command": "python run_pretraining.py",
            "scores": {
                "sop": {
                    "masked_lm_loss": loss,
                    "masked_lm_accuracy": 0.5,
                    "sentence_order_accuracy": 0.75,
                }
            },
            "curve": [[0, 9.0], [10, loss]],
        }
        for seed, loss in ((1, 4.0), (2, 5.0), (3, 4.5))
    ]

    here, chart, paper, about = report.sections(EXPERIMENTS["sharing"], results)

    row = ("all", "12,345", "4.500 (4.000 to 5.000)", "50.0% (50.0% to 50.0%)")
    assert here.rows[0][:4] == row
    assert here.rows[0][5:] == ("", "1.0", "3")
    assert chart.curves["all"] == [[0, 9.0], [10, 4.0]]
    assert ("all", "12M", "80.1") in paper.rows
    assert about.rows[0][1].startswith("Sharing all parameters costs")


def test_a_command_that_fails_is_one_line(tmp_path):
    command = runs.command("run_pretraining.py", num_train_steps="x")

    with pytest.raises(ValueError, match=r"--num_train_steps=x.* See .*log\."):
        runs.call(command, tmp_path / "log")


def test_a_finished_model_is_not_trained_again(tmp_path):
    (tmp_path / "all").mkdir()
    (tmp_path / "all" / "result.json").write_text(json.dumps({"seed": 7}))
    (variant, *_) = EXPERIMENTS["sharing"].variants(SCALES["tiny"])

    found = runs.run_variant(
        variant,
        EXPERIMENTS["sharing"],
        SCALES["tiny"],
        tmp_path,
        tmp_path,
        seed=7,
    )

    assert found == {"seed": 7}
