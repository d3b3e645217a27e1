"""Takes a small ALBERT from the English that every Python carries to serving.

Writes a corpus, then calls the scripts as a user would, echoing each command:
vocabulary, records, pretraining, other formats and back, fine-tuning, export.
It asks the exported models in raw text; `report.html` shows the curves and
what the model fills in, before and after. Run again, it goes on where it was.
"""

import os
import shlex
import shutil
import subprocess
import sys
import time

import run_flags
from absl import flags

import demo_corpus
import demo_reviews
from albert_tf import files
from albert_tf.config import AlbertConfig

FOLDER = os.path.dirname(os.path.abspath(__file__))

VOCAB_SIZE = 2000
MAX_SEQ_LENGTH = 128
MAX_PREDICTIONS = 20
BATCH_SIZE = 16
LEARNING_RATE = 0.005
FINETUNING_RATE = 0.0001
# Each copy cuts the text into other pairs.
NUM_COPIES = 4
SEED = 12345
MODEL = AlbertConfig(
    vocab_size=VOCAB_SIZE,
    embedding_size=128,
    hidden_size=128,
    num_hidden_layers=6,
    num_attention_heads=4,
    intermediate_size=512,
    max_position_embeddings=MAX_SEQ_LENGTH,
)


def define_flags() -> None:
    """Defines the flags of this script."""
    flags.DEFINE_string("output_dir", "demo_output", "Where everything goes.")
    flags.DEFINE_integer(
        "num_train_steps", 800, "How long to pretrain.", lower_bound=10
    )
    flags.DEFINE_integer(
        "num_finetuning_steps", 600, "How long to fine-tune.", lower_bound=10
    )
    flags.DEFINE_bool(
        "fresh", False, "Begin anew: remove what a demo left in --output_dir."
    )


def main(values: flags.FlagValues) -> None:
    """Makes corpus, vocabulary, records, the pretrained model, the report."""
    start = time.monotonic()
    paths = Paths(values.output_dir)
    if values.fresh:
        paths.remove_all()
    print("1/8 Corpus: the prose of Python's own help()")
    facts = write_corpus(paths)
    print("2/8 Vocabulary")
    build_vocabulary(paths)
    print("3/8 Records")
    build_records(paths)
    print("4/8 Pretraining")
    facts["Command"] = pretrain(paths, num_train_steps=values.num_train_steps)
    print("5/8 To Hugging Face's format and back")
    convert(paths)
    print("6/8 Fine-tuning: is a review of software positive?")
    fine_tune(paths, num_train_steps=values.num_finetuning_steps)
    print("7/8 SavedModels that take raw text")
    export(paths)
    ask(paths)
    print("8/8 Report")
    # It imports TensorFlow, so not before the flags are good.
    with run_flags.quiet_import():
        import demo_report

    first, last = demo_report.write(
        paths.report,
        run_folder=paths.run,
        held_out_text=paths.held_out_text,
        spm_model_file=paths.spm_model,
        facts=facts,
    )
    minutes = (time.monotonic() - start) / 60
    print(
        f"Held-out masked-LM loss: {first:.2f} nats before, {last:.2f} after; "
        f"{minutes:.1f} minutes in all.\nOpen {os.path.abspath(paths.report)}"
    )


class Paths:
    """Where the demo puts what it makes.

    Args:
        folder: Value of `--output_dir`.
    """

    def __init__(self, folder: str) -> None:
        self.train_text = os.path.join(folder, "train.txt")
        self.held_out_text = os.path.join(folder, "held_out.txt")
        self.vocabulary = os.path.join(folder, "vocabulary")
        self.spm_model = f"{self.vocabulary}.model"
        self.records = os.path.join(folder, "records")
        self.train_records = os.path.join(self.records, "train.tfrecord")
        self.held_out_records = os.path.join(self.records, "held_out.tfrecord")
        self.config = os.path.join(folder, "albert_config.json")
        self.run = os.path.join(folder, "run")
        self.huggingface = os.path.join(folder, "huggingface")
        self.round_trip = os.path.join(folder, "round_trip")
        self.train_reviews = os.path.join(folder, "reviews_train.tsv")
        self.dev_reviews = os.path.join(folder, "reviews_dev.tsv")
        self.classifier = os.path.join(folder, "classifier")
        self.served_encoder = os.path.join(folder, "served", "albert")
        self.served_classifier = os.path.join(folder, "served", "reviews")
        self.report = os.path.join(folder, "report.html")

    def remove_all(self) -> None:
        """Removes the products of a demo, and nothing else."""
        for folder in (
            self.records,
            self.run,
            self.huggingface,
            self.round_trip,
            self.classifier,
            self.served_encoder,
            self.served_classifier,
        ):
            if os.path.isdir(folder):
                shutil.rmtree(folder)
        for path in (
            self.train_text,
            self.held_out_text,
            self.spm_model,
            f"{self.vocabulary}.vocab",
            self.config,
            self.train_reviews,
            self.dev_reviews,
            self.report,
        ):
            if os.path.exists(path):
                os.remove(path)


def write_corpus(paths: Paths) -> dict[str, str]:
    """Writes the text to train on and the held-out text.

    Returns:
        Facts about them, for the report.

    Raises:
        ValueError: An earlier demo made another corpus there.
    """
    train, held_out = demo_corpus.train_and_held_out()
    for path, part in (
        (paths.train_text, train),
        (paths.held_out_text, held_out),
    ):
        text = demo_corpus.to_text(part)
        if os.path.exists(path) and files.read_text(path) != text:
            raise ValueError(
                f"{path!r} holds another corpus, perhaps that of another "
                "Python. Pass --fresh to begin anew."
            )
        files.write_text(path, text)
    return {
        "Corpus": "pydoc_data.topics, the prose of Python's own help()",
        "Training text": demo_corpus.describe(train),
        "Held-out text": demo_corpus.describe(held_out),
    }


def build_vocabulary(paths: Paths) -> None:
    """Trains the vocabulary, unless it is there."""
    if os.path.exists(paths.spm_model):
        print(f"{paths.spm_model} is there already.")
        return
    call(
        "build_vocab.py",
        input_file=paths.train_text,
        output_prefix=paths.vocabulary,
        vocab_size=VOCAB_SIZE,
    )


def build_records(paths: Paths) -> None:
    """Writes training pairs, masked when read, and masked held-out pairs."""
    for masking, text, records in (
        ("dynamic", paths.train_text, paths.train_records),
        ("static", paths.held_out_text, paths.held_out_records),
    ):
        call(
            "create_pretraining_data.py",
            input_file=text,
            output_file=records,
            spm_model_file=paths.spm_model,
            masking=masking,
            dupe_factor=NUM_COPIES,
            max_seq_length=MAX_SEQ_LENGTH,
            max_predictions_per_seq=MAX_PREDICTIONS,
            random_seed=SEED,
        )


def pretrain(paths: Paths, *, num_train_steps: int) -> str:
    """Pretrains, or goes on with it; returns the command."""
    MODEL.to_json_file(paths.config)
    return call(
        "run_pretraining.py",
        input_file=paths.train_records,
        eval_file=paths.held_out_records,
        output_dir=paths.run,
        albert_config_file=paths.config,
        do_train=True,
        do_eval=True,
        train_batch_size=BATCH_SIZE,
        eval_batch_size=BATCH_SIZE,
        max_seq_length=MAX_SEQ_LENGTH,
        max_predictions_per_seq=MAX_PREDICTIONS,
        optimizer="lamb",
        learning_rate=LEARNING_RATE,
        num_train_steps=num_train_steps,
        num_warmup_steps=num_train_steps // 10,
        save_checkpoints_steps=max(1, num_train_steps // 8),
        keep_checkpoint_max=10,
        log_steps=max(1, num_train_steps // 40),
        random_seed=SEED,
    )


def convert(paths: Paths) -> None:
    """Converts the model to Hugging Face's format, and that to ours."""
    for source, target, output_format in (
        (paths.run, paths.huggingface, "huggingface"),
        (paths.huggingface, paths.round_trip, "keras"),
    ):
        if os.path.isdir(target):
            print(f"{target} is there already.")
            continue
        call(
            "convert_checkpoint.py",
            input_path=source,
            output_path=target,
            output_format=output_format,
            spm_model_file=paths.spm_model,
            verify=True,
        )


def fine_tune(paths: Paths, *, num_train_steps: int) -> None:
    """Fine-tunes the model on reviews written for it, and evaluates it."""
    for path, reviews in zip(
        (paths.train_reviews, paths.dev_reviews),
        demo_reviews.train_and_dev(),
        strict=True,
    ):
        files.write_text(path, demo_reviews.to_tsv(reviews))
    text_column, label_column = demo_reviews.HEADER
    call(
        "run_classifier.py",
        task_name="custom",
        train_file=paths.train_reviews,
        eval_file=paths.dev_reviews,
        text_columns=text_column,
        label_column=label_column,
        albert_config_file=paths.config,
        spm_model_file=paths.spm_model,
        init_checkpoint=paths.run,
        output_dir=paths.classifier,
        do_train=True,
        do_eval=True,
        max_seq_length=MAX_SEQ_LENGTH,
        train_batch_size=BATCH_SIZE,
        learning_rate=FINETUNING_RATE,
        num_train_steps=num_train_steps,
        num_warmup_steps=num_train_steps // 10,
        save_checkpoints_steps=max(1, num_train_steps // 4),
        log_steps=max(1, num_train_steps // 20),
        random_seed=SEED,
    )


def export(paths: Paths) -> None:
    """Exports the pretrained model and the classifier for TF Serving."""
    for source, target, task in (
        (paths.run, paths.served_encoder, "encoder"),
        (paths.classifier, paths.served_classifier, "classifier"),
    ):
        if os.path.isdir(target):
            print(f"{target} is there already.")
            continue
        call(
            "export_saved_model.py",
            init_checkpoint=source,
            albert_config_file=paths.config,
            spm_model_file=paths.spm_model,
            task=task,
            max_seq_length=MAX_SEQ_LENGTH,
            export_dir=target,
        )


def ask(paths: Paths) -> None:
    """Puts raw text to the exported models, as TF Serving would."""
    with run_flags.quiet_import():
        import demo_serving

    for line in demo_serving.answers(
        encoder_dir=paths.served_encoder,
        classifier_dir=paths.served_classifier,
    ):
        print(line)


def call(script: str, **script_flags: object) -> str:
    """Echoes and runs a script of this folder; returns the command.

    Exits with the script's own code if it fails, for it has said why.
    """
    arguments = [
        f"--{name}" if value is True else f"--{name}={value}"
        for name, value in script_flags.items()
    ]
    program = [_short(sys.executable), _short(os.path.join(FOLDER, script))]
    command = shlex.join([*program, *arguments])
    print(f"$ {command}", flush=True)
    result = subprocess.run([*program, *arguments], check=False)
    if result.returncode:
        sys.exit(result.returncode)
    return command


def _short(path: str) -> str:
    """Returns a path as one would type it here."""
    relative = os.path.relpath(path)
    return path if relative.startswith(os.pardir) else relative


if __name__ == "__main__":
    run_flags.run_script(define_flags, main)
