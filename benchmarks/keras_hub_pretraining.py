"""Pretrains KerasHub's ALBERT on our records, as a peer of `time_to_loss.py`.

    python benchmarks/keras_hub_pretraining.py --albert_config_file=small.json \
        --input_file=train.64 --eval_file=held_out.64 --train_batch_size=64 \
        --learning_rate=0.001 --num_train_steps=2000 --output_dir=runs/keras_hub

KerasHub has no sentence order, so it learns masked words alone, by `fit` in a
graph, with AdamW and a rate that rises, then falls to 0 by a cosine.
Model, records, batches and masks are those that `run_pretraining.py` would
have with the same flags. `metrics.jsonl` has a line for each evaluation.
"""

import argparse
import json
import os
import pathlib
import sys
import time
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--albert_config_file", required=True)
    parser.add_argument("--input_file", required=True, help="record files")
    parser.add_argument("--eval_file", required=True, help="record files")
    parser.add_argument("--output_dir", required=True, type=pathlib.Path)
    parser.add_argument("--num_train_steps", type=int, required=True)
    parser.add_argument("--num_warmup_steps", type=int, default=100)
    parser.add_argument("--train_batch_size", type=int, default=64)
    parser.add_argument("--eval_batch_size", type=int, default=64)
    parser.add_argument("--max_eval_steps", type=int)
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    parser.add_argument("--save_checkpoints_steps", type=int, default=200)
    parser.add_argument("--random_seed", type=int, default=12345)
    return parser.parse_args()


def create_model(arguments: argparse.Namespace) -> Any:
    """Returns KerasHub's model of the configuration, compiled."""
    import keras
    import keras_hub

    from albert_tf.config import AlbertConfig

    config = AlbertConfig.from_json_file(arguments.albert_config_file)
    model = keras_hub.models.AlbertMaskedLM(
        keras_hub.models.AlbertBackbone(
            vocabulary_size=config.vocab_size,
            num_layers=config.num_hidden_layers,
            num_heads=config.num_attention_heads,
            embedding_dim=config.embedding_size,
            hidden_dim=config.hidden_size,
            intermediate_dim=config.intermediate_size,
            dropout=config.hidden_dropout_prob,
            max_sequence_length=config.max_position_embeddings,
        ),
        preprocessor=None,
    )
    # It rises, and then falls; Keras has no linear schedule that does both.
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0,
        arguments.num_train_steps - arguments.num_warmup_steps,
        warmup_target=arguments.learning_rate,
        warmup_steps=arguments.num_warmup_steps,
    )
    model.compile(
        optimizer=keras.optimizers.AdamW(
            schedule, weight_decay=0.01, global_clipnorm=1.0
        ),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=[
            keras.metrics.SparseCategoricalCrossentropy(
                from_logits=True, name="masked_lm_loss"
            )
        ],
        jit_compile=False,  # which is slower here
    )
    return model


def read_batches(arguments: argparse.Namespace) -> tuple[Any, Any]:
    """Returns the endless batches of training, and the held-out ones."""
    from albert_tf.data import example_order, input_pipeline, record_source

    shard = example_order.InputShard()
    training = input_pipeline.training_dataset(
        record_source.open_records(arguments.input_file),
        shard,
        global_batch_size=arguments.train_batch_size,
        seed=arguments.random_seed,
    )
    held_out = input_pipeline.evaluation_dataset(
        record_source.open_records(arguments.eval_file),
        shard,
        batch_size=arguments.eval_batch_size,
        max_steps=arguments.max_eval_steps,
    )
    return training.map(_as_arguments), held_out.map(_as_arguments).cache()


def _as_arguments(batch: dict[str, Any]) -> tuple[Any, ...]:
    """Returns inputs, targets and weights, as `fit` takes them."""
    inputs = {
        "token_ids": batch["input_ids"],
        "segment_ids": batch["segment_ids"],
        "padding_mask": batch["input_mask"],
        "mask_positions": batch["masked_lm_positions"],
    }
    return inputs, batch["masked_lm_ids"], batch["masked_lm_weights"]


def main() -> None:
    """Trains, and writes a line of scores for each evaluation."""
    arguments = parse_arguments()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.path.insert(0, str(ROOT))
    import keras

    keras.utils.set_random_seed(arguments.random_seed)
    model = create_model(arguments)
    training, held_out = read_batches(arguments)
    arguments.output_dir.mkdir(parents=True, exist_ok=True)
    log = arguments.output_dir / "metrics.jsonl"
    log.write_text("")

    class Log(keras.callbacks.Callback):
        """Writes a line for each evaluation; its own time does not count."""

        seconds = 0.0

        def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
            self.start = time.monotonic()

        def on_test_begin(self, logs: object = None) -> None:
            self.seconds += time.monotonic() - self.start

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            line = {
                "step": (epoch + 1) * arguments.save_checkpoints_steps,
                "seconds": self.seconds,
                "eval_masked_lm_loss": logs["val_masked_lm_loss"],
            }
            with log.open("a") as file:
                file.write(json.dumps(line) + "\n")

    model.fit(
        training,
        epochs=arguments.num_train_steps // arguments.save_checkpoints_steps,
        steps_per_epoch=arguments.save_checkpoints_steps,
        validation_data=held_out,
        callbacks=[Log()],
        verbose=0,
    )


if __name__ == "__main__":
    main()
