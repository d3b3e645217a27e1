"""Takes a small ALBERT from the docstrings on this machine to serving.

Writes a corpus, then calls the scripts as a user would and shows each command:
vocabulary, records, pretraining on short and then on longer sequences, other
checkpoint formats, export. Fine-tuning is a call in Python. Asks the exported
models in raw text and writes report.html. Run again, it continues where it
stopped.
"""

import dataclasses
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence

from absl import flags

import albert_tf
from albert_tf import files
from albert_tf.cli import program
from albert_tf.config import AlbertConfig
from demo import corpus, reviews

ROOT = pathlib.Path(__file__).resolve().parents[1]

VOCAB_SIZE = 2000
# Without dropout, which slows down a model too small to overfit.
MODEL = AlbertConfig(
    vocab_size=VOCAB_SIZE,
    embedding_size=128,
    hidden_size=128,
    num_hidden_layers=4,
    num_attention_heads=4,
    intermediate_size=512,
    max_position_embeddings=64,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
# More than the paper's 0.15, so that each step teaches more; scores on the
# held-out text are those of the paper's share.
MASKED_LM_PROBS = {"train": 0.2, "held_out": 0.15}
# Ten demos of ten end above 94%; at 0.0003, three of ten near chance.
FINETUNING_LEARNING_RATE = 0.0001
# Characters of a command on one line, if no argument is longer.
SHOWN_WIDTH = 70
# Files and folders that the demo writes to --output_dir.
RESULTS = """
    train.txt held_out.txt train_sop.txt held_out_sop.txt
    vocabulary.model vocabulary.vocab records albert_config.json
    pretraining_short pretraining_long huggingface round_trip
    reviews_train.tsv reviews_dev.tsv classifier exported report.html
""".split()

# Of 1,500 held-out pairs, chance alone gets 2.6% more than half right.
CHANCE = 0.03


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase:
    """One of the two pretraining runs; most fields are flags of the scripts."""

    name: str
    max_seq_length: int
    max_predictions_per_seq: int
    pair_objective: str
    objectives: str
    train_batch_size: int
    learning_rate: float
    # Steps of the phase per step of its warm-up.
    steps_per_warmup_step: int


# Attention is learnt earlier on short sequences and from one loss alone.
SHORT = Phase(
    name="short",
    max_seq_length=32,
    max_predictions_per_seq=7,
    pair_objective="none",
    objectives="mlm",
    train_batch_size=64,
    learning_rate=0.004,
    steps_per_warmup_step=12,
)
# Gentler, because there is a new head for the order of sentences.
LONG = Phase(
    name="long",
    max_seq_length=64,
    max_predictions_per_seq=13,
    pair_objective="sop",
    objectives="mlm,sop",
    train_batch_size=32,
    learning_rate=0.002,
    steps_per_warmup_step=6,
)


def define_flags() -> None:
    """Defines the flags of the demo."""
    flags.DEFINE_string("output_dir", "demo_output", "Folder for all results.")
    flags.DEFINE_integer(
        "num_train_steps",
        2400,
        "Pretraining steps: three quarters on short sequences, the rest on "
        "longer ones.",
        lower_bound=16,
    )
    flags.DEFINE_integer(
        "num_finetuning_steps", 600, "Fine-tuning steps.", lower_bound=10
    )
    flags.DEFINE_integer("random_seed", 12345, "Seed of data and training.")
    flags.DEFINE_bool(
        "fresh", False, "Remove earlier results from --output_dir first."
    )


def main(values: flags.FlagValues) -> None:
    """Runs all steps, from the corpus to the report."""
    start = time.monotonic()
    folder = pathlib.Path(values.output_dir)
    if values.fresh:
        remove_results(folder)
    print("1/8 Corpus: docstrings of Python and of the installed packages")
    facts = write_corpus(folder)
    print("2/8 Vocabulary")
    build_vocabulary(folder)
    print("3/8 Records")
    for phase in (SHORT, LONG):
        build_records(folder, phase, values.random_seed)
    print("4/8 Pretraining")
    num_short_steps = values.num_train_steps * 3 // 4
    num_long_steps = values.num_train_steps - num_short_steps
    facts["Pretraining"] = pretrain(
        folder, SHORT, num_short_steps, random_seed=values.random_seed
    )
    facts["Continued"] = pretrain(
        folder,
        LONG,
        num_long_steps,
        random_seed=values.random_seed,
        init_checkpoint=folder / "pretraining_short",
        allow_new_heads=True,
    )
    print("5/8 To Hugging Face's format and back")
    convert(folder)
    print("6/8 Fine-tuning: is a review of software positive?")
    facts["Reviews"] = fine_tune(
        folder, values.num_finetuning_steps, values.random_seed
    )
    print("7/8 SavedModels that take raw text")
    export(folder)
    # They import TensorFlow: not before the flags are checked.
    with program.quiet_import():
        from demo import report, serving

    answers = serving.answers(
        encoder_dir=folder / "exported/encoder",
        classifier_dir=folder / "exported/classifier",
    )
    for text, answer in answers:
        print(f"{text!r}: {answer}")
    print("8/8 Report")
    report.write(folder, facts=facts, answers=answers, results=results(folder))
    minutes = (time.monotonic() - start) / 60
    print(f"{minutes:.1f} minutes. Accuracy on held-out text:")
    missed = print_scores(results(folder))
    print(f"report: {(folder / 'report.html').resolve()}")
    if missed:
        raise ValueError(
            f"Nothing has been learnt of {', '.join(missed)}. Try more steps: "
            "--num_train_steps, --num_finetuning_steps."
        )
    path = shlex.quote(str(folder / "classifier"))
    print(f'next: python -m albert_tf.predict {path} "The parser is fast."')


def print_scores(scores: dict[str, tuple[float, float]]) -> list[str]:
    """Prints scores and baselines; returns the names of scores not above."""
    missed = []
    for name, (score, baseline) in scores.items():
        note = ", may be chance" if score - baseline < CHANCE else ""
        print(f"  {name:15}{score:6.1%} (baseline {baseline:.1%}{note})")
        if score <= baseline:
            missed.append(name)
    return missed


def results(folder: pathlib.Path) -> dict[str, tuple[float, float]]:
    """Returns accuracies by name, and their baselines.

    Of masked words, that is after an eighth of the first run, when frequent
    words are all that is known.
    """
    pretrained, classified = (
        files.read_json_object(folder / name / "eval_results.json")
        for name in ("pretraining_long", "classifier")
    )
    log = files.read_json_lines(folder / "pretraining_short/metrics.jsonl")
    key = "eval_masked_lm_accuracy"
    _, early, *_ = [line[key] for line in log if key in line]
    return {
        "masked words": (pretrained["masked_lm_accuracy"], early),
        "sentence order": (pretrained["sentence_order_accuracy"], 0.5),
        "reviews": (classified["accuracy"], classified["accuracy_baseline"]),
    }


def remove_results(folder: pathlib.Path) -> None:
    """Removes the results of a demo, and nothing else."""
    for path in (folder / name for name in RESULTS):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def write_corpus(folder: pathlib.Path) -> dict[str, str]:
    """Writes both texts unless they exist; returns their sizes by title."""
    texts = {
        "Training text": folder / "train.txt",
        "Held-out text": folder / "held_out.txt",
    }
    if not is_done(*texts.values()):
        parts = corpus.train_and_held_out()
        for path, documents in zip(texts.values(), parts, strict=True):
            # A single sentence has no order.
            longer = [one for one in documents if len(one) > 1]
            pairs = path.with_stem(f"{path.stem}_sop")
            files.write_text(pairs, corpus.to_text(longer))
            files.write_text(path, corpus.to_text(documents))
    facts = {}
    for title, path in texts.items():
        facts[title] = corpus.describe(files.read_text(path))
        print(f"{title}: {facts[title]}")
    return facts


def build_vocabulary(folder: pathlib.Path) -> None:
    """Trains the vocabulary, unless it exists."""
    if not is_done(folder / "vocabulary.model"):
        call(
            "build_vocab.py",
            input_file=folder / "train.txt",
            output_prefix=folder / "vocabulary",
            vocab_size=VOCAB_SIZE,
        )


def build_records(folder: pathlib.Path, phase: Phase, random_seed: int) -> None:
    """Writes the records of a phase; they are masked when they are read."""
    kind = "_sop" if phase.pair_objective == "sop" else ""
    for part, masked_lm_prob in MASKED_LM_PROBS.items():
        call(
            "create_pretraining_data.py",
            input_file=folder / f"{part}{kind}.txt",
            output_file=folder / f"records/{part}_{phase.name}.tfrecord",
            spm_model_file=folder / "vocabulary.model",
            masking="dynamic",
            masked_lm_prob=masked_lm_prob,
            ngram=1,
            # Each copy cuts the text elsewhere.
            dupe_factor=2,
            pair_objective=phase.pair_objective,
            max_seq_length=phase.max_seq_length,
            max_predictions_per_seq=phase.max_predictions_per_seq,
            random_seed=random_seed,
        )


def pretrain(
    folder: pathlib.Path, phase: Phase, num_train_steps: int, **others: object
) -> str:
    """Pretrains, or resumes; returns the command.

    `others` are more flags: the seed, and the weights to start from.
    """
    config = folder / "albert_config.json"
    MODEL.to_json_file(config)
    return call(
        "run_pretraining.py",
        input_file=folder / f"records/train_{phase.name}.tfrecord",
        eval_file=folder / f"records/held_out_{phase.name}.tfrecord",
        output_dir=folder / f"pretraining_{phase.name}",
        albert_config_file=config,
        **others,
        objectives=phase.objectives,
        do_train=True,
        do_eval=True,
        max_seq_length=phase.max_seq_length,
        max_predictions_per_seq=phase.max_predictions_per_seq,
        train_batch_size=phase.train_batch_size,
        eval_batch_size=128,
        precision="bfloat16",
        optimizer="muon",
        learning_rate=phase.learning_rate,
        # Falls late: attention is learnt sooner at a high rate.
        poly_power=0.5,
        num_train_steps=num_train_steps,
        num_warmup_steps=num_train_steps // phase.steps_per_warmup_step,
        save_checkpoints_steps=max(1, num_train_steps // 8),
        keep_checkpoint_max=10,
        log_steps=max(1, num_train_steps // 40),
    )


def convert(folder: pathlib.Path) -> None:
    """Converts the model to Hugging Face's format, and back."""
    for source, target, output_format in (
        ("pretraining_long", "huggingface", "huggingface"),
        ("huggingface", "round_trip", "keras"),
    ):
        if not is_done(folder / target):
            call(
                "convert_checkpoint.py",
                input_path=folder / source,
                output_path=folder / target,
                output_format=output_format,
                verify=True,
            )


def fine_tune(
    folder: pathlib.Path, num_train_steps: int, random_seed: int
) -> str:
    """Fine-tunes on reviews; returns the accuracy on the held-out ones."""
    paths = (folder / "reviews_train.tsv", folder / "reviews_dev.tsv")
    for path, part in zip(paths, reviews.train_and_dev(), strict=True):
        files.write_text(path, reviews.to_tsv(part))
    text_column, label_column = reviews.HEADER
    settings = {
        "train_file": str(paths[0]),
        "eval_file": str(paths[1]),
        "text_columns": [text_column],
        "label_column": label_column,
        "init_checkpoint": str(folder / "pretraining_long"),
        "output_dir": str(folder / "classifier"),
        "max_seq_length": 32,
        "train_batch_size": 16,
        "learning_rate": FINETUNING_LEARNING_RATE,
        "num_train_steps": num_train_steps,
        "num_warmup_steps": num_train_steps // 10,
        "save_checkpoints_steps": max(1, num_train_steps // 4),
        "log_steps": max(1, num_train_steps // 20),
        "random_seed": random_seed,
    }
    lines = [f"    {name}={value!r}," for name, value in settings.items()]
    print(">>> result = albert_tf.finetune(\n    'custom',", *lines, sep="\n")
    print(")", flush=True)
    with program.quiet_import():
        finetune = albert_tf.finetune
    result = finetune("custom", **settings)
    accuracy = result.scores["accuracy"]
    print(f">>> result.scores['accuracy']\n{accuracy:.4f}")
    return f"{accuracy:.1%} of {reviews.NUM_DEV} held-out reviews"


def export(folder: pathlib.Path) -> None:
    """Exports the pretrained model and the classifier for TF Serving."""
    sources = {"encoder": "pretraining_long", "classifier": "classifier"}
    for name, source in sources.items():
        target = folder / "exported" / name
        if not is_done(target):
            call(
                "export_saved_model.py",
                init_checkpoint=folder / source,
                export_dir=target,
            )


def is_done(*paths: pathlib.Path) -> bool:
    """Returns whether these results exist, and says so if they do."""
    if not all(path.exists() for path in paths):
        return False
    print(f"Kept from an earlier demo: {', '.join(map(str, paths))}.")
    return True


def call(script: str, **script_flags: object) -> str:
    """Prints and runs the command of a script; returns the command.

    If the script fails, exits with its code; the script has printed why.
    """
    paths = (pathlib.Path(sys.executable), ROOT / script)
    here = pathlib.Path.cwd()
    arguments = [
        *(str(p.relative_to(here) if here in p.parents else p) for p in paths),
        *(
            f"--{name}" if value is True else f"--{name}={value}"
            for name, value in script_flags.items()
        ),
    ]
    print(shown(arguments), flush=True)
    environment = os.environ | {program.IS_CALLED: "1"}
    run = subprocess.run(arguments, check=False, env=environment)
    if code := run.returncode:
        sys.exit(code)
    return shlex.join(arguments)


def shown(command: Sequence[str]) -> str:
    r"""Returns a command as lines to be typed; no argument is divided.

    >>> print(shown(["python", "run.py", f"--folder={'my results/' * 5}"]))
    $ python run.py \
          '--folder=my results/my results/my results/my results/my results/'
    """
    first, *others = map(shlex.quote, command)
    lines = [f"$ {first}"]
    for argument in others:
        if len(lines[-1]) + len(argument) < SHOWN_WIDTH:
            lines[-1] += f" {argument}"
        else:
            lines.append(argument)
    return " \\\n      ".join(lines)


if __name__ == "__main__":
    program.run(define_flags, main, description=__doc__)
