"""Flags from the fields of configs; the flags that every command must have."""

import dataclasses
import importlib.util
import re
import subprocess
import sys

import pytest
from absl import flags as absl_flags

from albert_tf import settings
from albert_tf.cli import flags, run_classifier
from albert_tf.settings import setting
from albert_tf.tasks.classification.config import ClassificationConfig
from albert_tf.tasks.race.sets import RaceConfig
from albert_tf.tasks.squad.sets import SquadConfig
from tests.cli.processes import ROOT

_SPEC = importlib.util.spec_from_file_location(
    "generate_flags", ROOT / "docs" / "generate_flags.py"
)
generate_flags = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(generate_flags)

# Flags of google-research/albert and their defaults; None has no text. Four
# have another default here: iterations_per_loop (the device decides),
# max_eval_steps (all), num_tpu_cores (any number), and RACE's task_name; and
# do_lower_case of the fine-tuning commands (as the checkpoint, or true).
# `test_program.py` has those without a use.
_FINETUNING = """
    albert_config_file= vocab_file= spm_model_file= output_dir=
    init_checkpoint= do_lower_case=
    predict_batch_size=8 train_batch_size=32 do_predict=false use_tpu=false
    tpu_name= tpu_zone= gcp_project= master= num_tpu_cores=
    iterations_per_loop=0
"""
ORIGINAL_DEFAULTS = {
    "run_classifier": f"""{_FINETUNING}
        data_dir= task_name= max_seq_length=512 do_train=false
        do_eval=false eval_batch_size=8 learning_rate=5e-05 train_step=1000
        warmup_step=0 save_checkpoints_steps=1000 keep_checkpoint_max=5
        optimizer=adamw export_dir=
    """,
    "run_squad": f"""{_FINETUNING}
        train_file= predict_file= max_seq_length=384 doc_stride=128
        max_query_length=64 do_train=false learning_rate=5e-05
        num_train_epochs=3.0 warmup_proportion=0.1 save_checkpoints_steps=1000
        n_best_size=20 max_answer_length=30 export_dir=
        start_n_top=5 end_n_top=5 dropout_prob=0.1
    """,
    "run_race": f"""{_FINETUNING}
        data_dir= train_file= eval_file= predict_file= task_name=race
        max_seq_length=512 max_qa_length=128 high_only=false middle_only=false
        do_train=true do_eval=true eval_batch_size=8 learning_rate=1e-05
        dropout_prob=0.1 train_step=12000 warmup_step=1000
        save_checkpoints_steps=100 num_keep_checkpoint=5
    """,
    "run_pretraining": """
        albert_config_file= input_file= output_dir= init_checkpoint=
        max_seq_length=512 max_predictions_per_seq= do_train=true
        do_eval=false train_batch_size=4096 eval_batch_size=64 optimizer=lamb
        learning_rate=0.00176 poly_power=1.0 num_train_steps=125000
        num_warmup_steps=3125 start_warmup_step=0 save_checkpoints_steps=5000
        keep_checkpoint_max=5 iterations_per_loop=0 max_eval_steps=
        use_tpu=false init_from_group0=false tpu_name= tpu_zone= gcp_project=
        master= num_tpu_cores=
    """,
    "create_pretraining_data": """
        input_file= output_file= vocab_file= spm_model_file=
        do_lower_case=true do_whole_word_mask=true do_permutation=false
        favor_shorter_ngram=true random_next_sentence=false max_seq_length=512
        ngram=3 max_predictions_per_seq=20 random_seed=12345 dupe_factor=
        masked_lm_prob=0.15 short_seq_prob=0.1
    """,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    number: int = setting(3, "A number.")
    share: float = setting(0.5, "A share.")
    switch: bool = setting(True, "A switch.")
    maybe: bool | None = setting(None, "True, false or neither.")
    name: str | None = setting(None, "A name.")
    kind: str = setting("a", "A kind.", choices=("a", "b"))
    names: tuple[str, ...] = setting((), "Some names.")
    kinds: tuple[str, ...] = setting(("x", "y"), "Some kinds.")
    not_a_flag: int = 7


@pytest.fixture
def values(parse):
    def parse_config(*arguments, **defaults):
        return parse(lambda: flags.define(Config, **defaults), *arguments)

    return parse_config


@pytest.mark.parametrize(
    ("arguments", "changes"),
    [
        ("", {}),
        ("--number=4 --share=1", {"number": 4, "share": 1.0}),
        ("--noswitch --maybe=false", {"switch": False, "maybe": False}),
        ("--name=n --kind=b", {"name": "n", "kind": "b"}),
        ("--names=c,d --kinds=", {"names": ("c", "d"), "kinds": ()}),
    ],
)
def test_flags_have_the_types_and_defaults_of_the_fields(
    arguments, changes, values
):
    given = flags.given(values(*arguments.split()))

    found = settings.read(Config, given)

    assert found == Config(**changes)


def test_numbers_may_be_several_where_a_command_takes_lists(values):
    lists = {"number", "share"}

    found = values("--number=4,5", "--share=1e-5,2", lists=lists)
    one = values("--number=4", lists=lists)

    assert flags.given(found) == {"number": (4, 5), "share": (1e-5, 2.0)}
    assert flags.given(one) == {"number": 4}
    for wrong in ("--number=4,x", "--number=4,", "--share=1e-5,abc"):
        with pytest.raises(absl_flags.IllegalFlagValueError, match=wrong[2:]):
            values(wrong, lists=lists)
    with pytest.raises(absl_flags.IllegalFlagValueError, match="'4,5'"):
        values("--number=4,5")


def test_a_command_may_have_other_defaults_and_values(values):
    found = values("--share=0.1", number=9, share=0.2)

    assert (found.number, found.share) == (9, 0.1)
    assert flags.given(found) == {"share": 0.1}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--master=grpc://there", {"tpu_name": "grpc://there"}),
        ("--train_step=7", {"num_train_steps": 7}),
        ("--warmup_step=0", {"num_warmup_steps": 0}),
        ("--num_keep_checkpoint=2", {"keep_checkpoint_max": 2}),
    ],
)
def test_a_name_of_the_original_gives_the_flag(arguments, expected, parse):
    values = parse(run_classifier.define_flags, arguments)

    assert expected.items() <= flags.given(values).items()


def defaults_of(command):
    """The defaults of the flags of a command."""
    found = generate_flags.flags_of(command)
    return {flag["name"]: flag["default"] for flag in found}


@pytest.mark.parametrize("command", ORIGINAL_DEFAULTS)
def test_the_original_s_flags_have_their_defaults(command):
    pairs = ORIGINAL_DEFAULTS[command].split()

    wanted = dict(pair.split("=") for pair in pairs)
    assert wanted.items() <= defaults_of(command).items()


# Reading examples may import these, which take a second; reading flags may not.
NO_SCIPY = """
import sys
assert not {"scipy", "sklearn"} & set(sys.modules)
sys.modules |= dict.fromkeys(["scipy", "sklearn"])
"""


@pytest.mark.parametrize("command", generate_flags.COMMANDS)
def test_help_answers_before_any_slow_import_and_is_the_page_of_flags(
    command, run_before_imports, tmp_path
):
    page = generate_flags.PAGE.read_text(encoding="utf-8")
    section = generate_flags.section(command)

    shown = run_before_imports(
        f"{command}.py", "--help", folder=tmp_path, before=NO_SCIPY
    )

    assert section in page, "run python docs/generate_flags.py"
    assert (shown.returncode, shown.stderr) == (0, "")
    assert f"\n{ROOT / command}.py:\n  --" in shown.stdout
    names = set(re.findall(r"^  --(?:\[no\])?(\w+):", shown.stdout, re.M))
    assert names == set(defaults_of(command))


def test_the_keywords_of_python_are_the_flags():
    written = generate_flags.KEYWORDS.read_text(encoding="utf-8")

    assert written == generate_flags.keyword_types(), (
        "run python docs/generate_flags.py"
    )


def test_type_checkers_know_the_keywords(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import pathlib\n"
        "from typing import Any\n"
        "import albert_tf\n"
        "others: dict[str, Any] = {}\n"
        "albert_tf.finetune('custom', text_columns=['a'], **others,\n"
        "    output_dir=pathlib.Path('run'), learning_rate=[1e-5, 2])\n"
        "albert_tf.pretrain(do_eval=True, objectives=('mlm',))\n"
        "albert_tf.finetune('custom', text_colums=['a'])\n"
        "albert_tf.finetune('custom', do_train=[True])\n"
        "albert_tf.pretrain(learning_rate=[1e-5, 2e-5])\n"
    )

    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )

    lines = [line for line in done.stdout.splitlines() if " error: " in line]
    assert len(lines) == 3, done.stdout
    assert "script.py:8: error: Unexpected keyword argument" in lines[0]
    assert '"do_train" to "finetune" has incompatible type' in lines[1]
    assert '"learning_rate" to "pretrain" has incompatible' in lines[2]


@pytest.mark.parametrize(
    "config",
    [ClassificationConfig(task_name="rte"), RaceConfig(), SquadConfig()],
)
def test_the_dropout_of_a_task_makes_another_run(config):
    assert settings.affects_training(config)["dropout_prob"] == 0.1
