"""How every command with flags starts and logs; `console` says how it ends."""

import contextlib
import gc
import logging
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from typing import Any, NoReturn

import tqdm
from absl import app, flags
from absl import logging as absl_logging
from absl.logging import converter

from albert_tf import console, quiet

# Flags of the original without a use here. Every command accepts them, and
# neither `--help` nor flags.txt shows them.
IGNORED_FLAGS = (
    "cached_dir",
    "input_file_mode",
    "predict_feature_file",
    "predict_feature_left_file",
    "threshold_to_export",
    "train_feature_file",
    "use_einsum",
)
# Advice in place of flags of the original whose values would be missed.
UNSUPPORTED_FLAGS = {
    "albert_hub_module_handle": "Unpack the module and pass its folder as "
    "--init_checkpoint.",
    "masked_lm_budget": "Build the records with --masking=dynamic to draw "
    "masks while training.",
    "train_adapters_only": "Models have no adapters: train all weights.",
}
_SWITCHES = ("use_einsum", "train_adapters_only")

_EXIT_CODE_FLAG = "preemption_exit_code"

# The command to type next, with values of the flags. Fine-tuning commands
# log theirs in `cli.finetuning.run`; a pretraining logs `fine_tuning`.
_NEXT = {
    "build_vocab": "python create_pretraining_data.py --input_file={input_file}"
    " --spm_model_file={output_prefix}.model --do_lower_case={do_lower_case}"
    " --output_file=train.tf_record",
    "list_symbols": "python create_pretraining_data.py --input_file=TEXT "
    "--vocab_file={output_prefix}.symbols.json --output_file=train.tf_record",
    "create_pretraining_data": "python run_pretraining.py --do_train "
    "--input_file={output_file} --albert_config_file=CONFIG --output_dir=run "
    "--max_seq_length={max_seq_length} "
    "--max_predictions_per_seq={max_predictions_per_seq}",
    "fine_tuning": "python run_classifier.py --do_train --do_eval "
    "--init_checkpoint={output_dir} --task_name=custom --train_file=TABLE "
    "--text_columns=text --label_column=label --validation_share=0.1 "
    "--max_seq_length={max_seq_length} --output_dir=classifier",
    "convert_checkpoint": "python -m albert_tf.predict {output_path} < inputs"
    "  # one a line, texts or JSON",
    "export_ids": "python -m albert_tf.predict {export_dir}/{export_version}"
    " < inputs  # one a line, texts or JSON",
    "export_saved_model": "docker run -p 8501:8501 -e MODEL_NAME=albert -v "
    '"$(realpath {export_dir})":/models/albert tensorflow/serving:2.20.0',
}

# Environment variable of a program that calls several commands, and says itself
# what is next.
IS_CALLED = "ALBERT_TF_IS_CALLED"

_LOGGER = logging.getLogger(__name__)


def run(
    define_flags: Callable[[], None],
    main: Callable[[flags.FlagValues], int | None],
    *,
    description: str | None,
) -> NoReturn:
    """Parses the flags, runs `main`, and exits with the code that it returns.

    An error of the user is reported as one line on stderr, `error: ...`, with
    exit code 1; `--verbosity=1` shows the traceback. `--help` shows the
    description above the flags.
    """
    if "--version" in sys.argv:
        print(metadata.version("albert-tf"))
        sys.exit(0)
    values = flags.FLAGS
    app.define_help_flags()
    # absl shows the docstring of the main module, which is a mere launcher.
    sys.modules["__main__"].__doc__ = description
    others = set(values)
    define_flags()
    for name in sorted(set(values) - others):
        # `--help` and flags.txt show the flags of the main module, but absl
        # takes them for those of the module that defines them.
        values.register_key_flag_for_module(sys.argv[0], values[name])
    for name in (*IGNORED_FLAGS, *UNSUPPORTED_FLAGS):
        define = flags.DEFINE_bool if name in _SWITCHES else flags.DEFINE_string
        define(name, None, "A flag without a use here.")
    values.set_default("verbosity", absl_logging.INFO)

    def command() -> int | None:
        _parse(values)
        _set_up_logging()
        _report_unused_flags(values)
        code = main(values)
        sys.stdout.flush()
        if not code:
            say_what_is_next(main.__module__.split(".")[-1], values)
        return code

    def code_if_interrupted() -> Any:
        is_run = _EXIT_CODE_FLAG in values
        return values[_EXIT_CODE_FLAG].value if is_run else None

    sys.exit(
        console.run(
            command,
            shows_traceback=_is_debugging,
            code_if_interrupted=code_if_interrupted,
        )
    )


def _parse(values: flags.FlagValues) -> None:
    try:
        rest = values(sys.argv)
        if len(rest) > 1:
            raise flags.Error(
                f"unexpected argument {rest[1]!r}; flags look like --name=value"
            )
    except flags.Error as error:
        sys.exit(console.report(error))
    except SystemExit:
        # Help was asked for and given; absl would exit with 1.
        sys.stdout.flush()
        sys.exit(0)


def _report_unused_flags(values: flags.FlagValues) -> None:
    for name in IGNORED_FLAGS:
        if values[name].present:
            _LOGGER.warning("--%s is ignored.", name)
    for name, advice in UNSUPPORTED_FLAGS.items():
        if values[name].value not in (None, "", "0", False):
            raise ValueError(f"--{name} is not supported. {advice}")


def say_what_is_next(command: str, values: flags.FlagValues) -> None:
    """Logs the command to type next, if one follows."""
    if command == "export_saved_model" and values["format"].value in (
        "litert",
        "onnx",
    ):
        command = "export_ids"
    if command == "build_vocab" and values["model_type"].value != "unigram":
        command = "list_symbols"
    following = _NEXT.get(command, "")
    if command == "create_pretraining_data":
        scheme = str(values["output_file"].value).rpartition("://")[0]
        following += " --read_order=files" if scheme else ""
        if scheme not in ("", "gs", "file"):  # No command reads them.
            return
    if following:
        by_name = {n: shlex.quote(str(values[n].value)) for n in values}
        if command == "build_vocab" and values["keep_accents"].value:
            following += " --keep_accents"
        say_next(following.format_map(by_name))


def say_next(command: str) -> None:
    """Logs the command to type next, unless another program says it."""
    if IS_CALLED not in os.environ:
        _LOGGER.info("next: %s", command)


@contextlib.contextmanager
def quiet_import() -> Iterator[None]:
    """Hides what TensorFlow prints, here and later, but for `--verbosity=1`."""
    if not _is_debugging():
        quiet.IN_COMMAND.set()
    # Half a million objects are made, which stay: looking for garbage among
    # them takes a second.
    is_first = "keras" not in sys.modules
    gc.disable()
    try:
        with quiet.hidden():
            yield
    finally:
        gc.enable()
        if is_first:
            gc.freeze()


def print_scores(scores: Mapping[str, float]) -> None:
    """Prints one score a line."""
    for name, value in scores.items():
        print(f"{console.printable(name)} = {value:.6g}")


class _ConsoleHandler(logging.Handler):
    """Writes `12:34:56 message` to stderr, above a progress bar."""

    def emit(self, record: logging.LogRecord) -> None:
        """Writes the line of a record, with its level from warnings on."""
        level = ""
        if record.levelno >= logging.WARNING:
            level = f"{record.levelname.lower()}: "
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        try:
            line = f"{clock} {level}{console.printable(record.getMessage())}"
            tqdm.tqdm.write(line, file=sys.stderr)
        except Exception:
            self.handleError(record)


def _set_up_logging() -> None:
    to_standard: Callable[[int], int] = converter.absl_to_standard
    level = to_standard(absl_logging.get_verbosity())
    root = logging.getLogger()
    root.handlers = [_ConsoleHandler()]
    logging.getLogger("albert_tf").setLevel(level)
    # Other libraries log every start at INFO.
    root.setLevel(level if _is_debugging() else max(level, logging.WARNING))


def _is_debugging() -> bool:
    return absl_logging.get_verbosity() >= absl_logging.DEBUG
