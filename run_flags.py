"""What the scripts share: starting, failing in one line, groups of flags.

Floor 7. Nothing in albert_tf imports this file. It imports no TensorFlow, so
that `--help` and flag errors answer at once; a script imports the parts of
the library that need TensorFlow inside its `main`.
"""

import contextlib
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from absl import app, flags
from absl import logging as absl_logging

from albert_tf import config
from albert_tf.config import AlbertConfig
from albert_tf.optimization import optimizer_config as optimizer_config_lib
from albert_tf.optimization.optimizer_config import OptimizerConfig
from albert_tf.training import run_config
from albert_tf.training.run_config import TpuAddress, TrainingConfig

EXIT_USER_ERROR = 1
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


def run_script(
    define_flags: Callable[[], None],
    main: Callable[[flags.FlagValues], None],
    argv: Sequence[str] | None = None,
) -> None:
    """Parses the flags, runs `main`, and exits.

    A flag error, a `ValueError` or an `OSError` (and TensorFlow's own errors)
    becomes one line on stderr, `error: ...`, and exit code 1; `--verbosity=1`
    adds the traceback.
    """
    values = flags.FLAGS
    # So that --help shows the shared flags as the script's own.
    flags.disclaim_key_flags()
    app.define_help_flags()
    define_flags()
    values.set_default("verbosity", absl_logging.INFO)
    try:
        _parse(values, list(argv if argv is not None else sys.argv))
        _set_up_logging()
        main(values)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        # Who read stdout (`| head`) has had enough; Python flushes once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_BROKEN_PIPE)
    except Exception as error:
        if _is_debugging() or not _is_user_error(error):
            raise
        _fail(_one_line(error))
    sys.exit(0)


def _parse(values: flags.FlagValues, argv: list[str]) -> None:
    try:
        rest = values(argv)
        if len(rest) > 1:
            raise flags.Error(
                f"unexpected argument {rest[1]!r}; flags look like --name=value"
            )
    except flags.Error as error:
        _fail(str(error))
    except SystemExit:
        # Help was asked for and given, which absl ends with 1.
        sys.stdout.flush()
        sys.exit(0)


@contextlib.contextmanager
def quiet_import() -> Iterator[None]:
    """Holds back what TensorFlow's C++ code says while it is imported.

    It greets on stderr before it reads any log level, so the stream itself is
    put aside, and shown only if the import fails. `--verbosity=1`, or a
    TF_CPP_MIN_LOG_LEVEL that the user has set, lets everything through.
    """
    if "TF_CPP_MIN_LOG_LEVEL" in os.environ or _is_debugging():
        yield
        return
    # Errors among it (no CUDA) come back as exceptions where they matter.
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    with tempfile.TemporaryFile() as chatter:
        sys.stderr.flush()
        stderr = os.dup(2)
        os.dup2(chatter.fileno(), 2)
        try:
            yield
        except BaseException:
            chatter.seek(0)
            os.write(stderr, chatter.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


def _set_up_logging() -> None:
    level = absl_logging.converter.absl_to_standard(
        absl_logging.get_verbosity()
    )
    absl_logging.use_absl_handler()
    logging.getLogger("albert_tf").setLevel(level)
    if not _is_debugging():
        # Other libraries tell of every start at INFO.
        logging.getLogger().setLevel(max(level, logging.WARNING))


def _is_debugging() -> bool:
    return absl_logging.get_verbosity() >= absl_logging.DEBUG


def _is_user_error(error: Exception) -> bool:
    if isinstance(error, ValueError | OSError | ImportError | MemoryError):
        return True
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(
        error, tensorflow.errors.OpError
    )


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def _fail(message: str) -> NoReturn:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(EXIT_USER_ERROR)


def define_model_flags() -> None:
    """Defines --albert_config_file and --init_checkpoint."""
    flags.DEFINE_string(
        "albert_config_file",
        None,
        "JSON file with the shape of the model, or the name of a published "
        "one (base_v2, xxlarge_v1, base_zh, bert_base, ...).",
    )
    flags.DEFINE_string(
        "init_checkpoint",
        None,
        "Weights to start from: a TF1 checkpoint (prefix or folder), the "
        "folder of a run or of its checkpoint, a Hugging Face folder "
        "(safetensors), or a KerasHub preset folder.",
    )


def albert_config(values: flags.FlagValues) -> AlbertConfig:
    """Reads the config that --albert_config_file names."""
    return config.load_config(values.albert_config_file)


def define_optimizer_flags(defaults: OptimizerConfig) -> None:
    """Defines the flags of the update rule and of the learning rate."""
    flags.DEFINE_enum(
        "optimizer",
        defaults.optimizer,
        optimizer_config_lib.OPTIMIZERS,
        "Update rule; both with the reference's arithmetic.",
    )
    flags.DEFINE_float(
        "learning_rate",
        defaults.learning_rate,
        "Rate at the end of the warm-up.",
    )
    flags.DEFINE_float(
        "poly_power", defaults.poly_power, "Power of the rate's decay to 0."
    )
    flags.DEFINE_integer(
        "num_train_steps", defaults.num_train_steps, "Updates of the run."
    )
    flags.DEFINE_integer(
        "num_warmup_steps",
        defaults.num_warmup_steps,
        "Updates over which the rate rises from 0.",
    )
    flags.DEFINE_integer(
        "start_warmup_step",
        defaults.start_warmup_step,
        "Update at which the warm-up starts; the rate is 0 before.",
    )
    flags.DEFINE_bool(
        "corrected_lamb",
        defaults.corrected_lamb,
        "LAMB with bias correction, as published; the reference has none.",
    )


def optimizer_config(
    values: flags.FlagValues, **changes: int
) -> OptimizerConfig:
    """Reads the flags of `define_optimizer_flags` back, some changed."""
    settings: dict[str, Any] = {
        "optimizer": values.optimizer,
        "learning_rate": values.learning_rate,
        "poly_power": values.poly_power,
        "num_train_steps": values.num_train_steps,
        "num_warmup_steps": values.num_warmup_steps,
        "start_warmup_step": values.start_warmup_step,
        "corrected_lamb": values.corrected_lamb,
    }
    return OptimizerConfig(**settings | changes)


def define_training_flags(defaults: TrainingConfig) -> None:
    """Defines the flags of batches, checkpoints, log and numerics."""
    integers = {
        "train_batch_size": "Examples of one update, over all replicas.",
        "eval_batch_size": "Examples of one evaluation batch, likewise.",
        "gradient_accumulation_steps": "Parts that a replica's batch is "
        "computed in, one after the other; the result is the same.",
        "save_checkpoints_steps": "Updates between two checkpoints (and "
        "evaluations).",
        "keep_checkpoint_max": "Checkpoints to keep, the newest.",
        "log_steps": "Updates that one line of metrics.jsonl covers.",
        "random_seed": "Seed of weights, order, masks and dropout.",
    }
    for name, text in integers.items():
        flags.DEFINE_integer(name, getattr(defaults, name), text)
    flags.DEFINE_integer(
        "iterations_per_loop",
        defaults.steps_per_loop,
        "Updates in one call of the graph at most; 0 lets the device decide.",
    )
    flags.DEFINE_enum(
        "precision",
        defaults.precision,
        run_config.PRECISIONS,
        "Precision of the layers; weights are always float32.",
    )
    flags.DEFINE_bool(
        "jit_compile",
        defaults.jit_compile,
        "Compile the forward and backward pass with XLA.",
    )
    flags.DEFINE_bool(
        "deterministic",
        defaults.deterministic,
        "Give the same bits each time, at some cost in speed.",
    )
    flags.DEFINE_enum(
        "on_divergence",
        defaults.on_divergence,
        run_config.ON_DIVERGENCE,
        "When the loss is not finite or jumps: stop, or go back to the last "
        "checkpoint, skip the batches since, and halve the rate.",
    )
    _define_device_flags(defaults)


def _define_device_flags(defaults: TrainingConfig) -> None:
    flags.DEFINE_enum(
        "strategy",
        defaults.strategy,
        run_config.STRATEGIES,
        "Devices: one; mirrored (all GPUs of this machine); multi_worker "
        "(TF_CONFIG); tpu; auto.",
    )
    flags.DEFINE_bool("use_tpu", False, "Same as --strategy=tpu.")
    flags.DEFINE_string("tpu_name", None, "Name or address of the TPU.")
    flags.DEFINE_string("tpu_zone", None, "Zone of the TPU.")
    flags.DEFINE_string("gcp_project", None, "Project of the TPU.")
    flags.DEFINE_string("master", None, "Address of the TPU, if unnamed.")
    flags.DEFINE_integer("num_tpu_cores", None, "Cores the TPU must have.")


def training_config(values: flags.FlagValues) -> TrainingConfig:
    """Reads the flags of `define_training_flags` back."""
    return TrainingConfig(
        train_batch_size=values.train_batch_size,
        eval_batch_size=values.eval_batch_size,
        num_train_steps=values.num_train_steps,
        gradient_accumulation_steps=values.gradient_accumulation_steps,
        save_checkpoints_steps=values.save_checkpoints_steps,
        keep_checkpoint_max=values.keep_checkpoint_max,
        log_steps=values.log_steps,
        steps_per_loop=values.iterations_per_loop,
        strategy="tpu" if values.use_tpu else values.strategy,
        tpu=TpuAddress(
            name=values.tpu_name or values.master,
            zone=values.tpu_zone,
            project=values.gcp_project,
            num_cores=values.num_tpu_cores,
        ),
        precision=values.precision,
        jit_compile=values.jit_compile,
        random_seed=values.random_seed,
        deterministic=values.deterministic,
        on_divergence=values.on_divergence,
    )


def require(values: flags.FlagValues, *names: str) -> None:
    """Raises ValueError unless every one of these flags has a value."""
    missing = [f"--{name}" for name in names if not values[name].value]
    if missing:
        raise ValueError(f"{' and '.join(missing)} must be given.")


def flags_text(values: flags.FlagValues) -> str:
    """Returns the flags of the script that is run, `--name=value` a line."""
    chosen = values.get_key_flags_for_module(sys.argv[0])
    lines = {flag.serialize() for flag in chosen if flag.value is not None}
    return "".join(f"{line}\n" for line in sorted(lines - {""}))
