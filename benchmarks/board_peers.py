"""Pretrains the model of board.py with transformers or KerasHub, on its arrays.

Called by board.py, with the Python that has the program. The batches are made
from the records of our runs, with masks of another seed, and all have 64
tokens; the held-out set is the same. KerasHub has no sentence order, and its
loss is a mean over all places of masked words, empty ones included: AdamW is
the same for all scales of the loss, but clipping begins later. AdamW, a linear
warm-up and a linear decay. The log is as ours. The same command goes on with a
run that was stopped. The folder `model` of the run has the weights in the
format of the library.
"""

import argparse
import itertools
import json
import os
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

SAVE_EVERY, LOG_EVERY = 250, 50
WEIGHT_DECAY = 0.01  # as ours
Batch = dict[str, np.ndarray]


class Program(NamedTuple):
    """A training with a library.

    Attributes:
        update: Makes an update of a batch, with a rate.
        logits: Returns the logits of a batch.
        state: Returns all weights and the slots of the optimizer, by name.
        set_state: Takes what `state` returned.
        save: Writes a folder that convert_checkpoint.py reads.
    """

    update: Callable[[Batch, float], None]
    logits: Callable[[Batch], dict[str, np.ndarray]]
    state: Callable[[], dict[str, np.ndarray]]
    set_state: Callable[[dict[str, np.ndarray]], None]
    save: Callable[[str], None]


def batches(path: pathlib.Path, size: int) -> Iterator[Batch]:
    """Yields the batches of a file of arrays, over and over."""
    arrays = dict(np.load(path))
    num_rows = len(arrays["input_ids"])
    while True:
        for start in range(0, num_rows - size + 1, size):
            part = slice(start, start + size)
            yield {name: values[part] for name, values in arrays.items()}


def transformers_program(
    model: dict[str, Any], options: argparse.Namespace
) -> Program:
    """Returns the training of our model with the library."""
    import torch
    import transformers

    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = transformers.AlbertConfig(
        **model, hidden_act="gelu_new", classifier_dropout_prob=0.0
    )
    albert = transformers.AlbertForPreTraining(config)
    # Vectors are biases and those of norms, which do not decay in ours.
    by_rank = [
        [p for p in albert.parameters() if (p.ndim > 1) == is_matrix]
        for is_matrix in (False, True)
    ]
    optimizer = torch.optim.AdamW(
        [
            {"params": by_rank[0], "weight_decay": 0.0},
            {"params": by_rank[1], "weight_decay": WEIGHT_DECAY},
        ],
        lr=0.0,
    )
    forward = torch.compile(albert) if options.compile else albert

    def outputs(batch: Batch, **labels: Any) -> Any:
        ids, mask, segments = (
            torch.tensor(batch[name].astype(np.int64))
            for name in ("input_ids", "input_mask", "segment_ids")
        )
        is_half = options.precision == "bfloat16"
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_half):
            return forward(
                input_ids=ids,
                attention_mask=mask,
                token_type_ids=segments,
                **labels,
            )

    def update(batch: Batch, rate: float) -> None:
        labels = np.full(batch["input_ids"].shape, -100)
        rows, columns = np.nonzero(batch["masked_lm_weights"])
        positions = batch["masked_lm_positions"][rows, columns]
        labels[rows, positions] = batch["masked_lm_ids"][rows, columns]
        order = torch.tensor(batch["sentence_order_labels"].astype(np.int64))
        loss = outputs(
            batch, labels=torch.tensor(labels), sentence_order_label=order
        ).loss
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(albert.parameters(), 1.0)
        optimizer.step()

    def logits(batch: Batch) -> dict[str, np.ndarray]:
        albert.eval()
        with torch.no_grad():
            found = outputs(batch)
        albert.train()
        positions = batch["masked_lm_positions"].astype(np.int64)
        words = found.prediction_logits.float().numpy()
        return {
            "words": np.take_along_axis(words, positions[..., None], 1),
            "order": found.sop_logits.float().numpy(),
        }

    def tensors() -> dict[str, Any]:
        # The optimizer has its slots after its first update.
        slots = {
            f"{number}/{name}": tensor
            for number, parameter in enumerate(albert.parameters())
            for name, tensor in optimizer.state[parameter].items()
        }
        return {**albert.state_dict(), **slots}

    def state() -> dict[str, np.ndarray]:
        return {name: tensor.numpy() for name, tensor in tensors().items()}

    def set_state(arrays: dict[str, np.ndarray]) -> None:
        for parameter in albert.parameters():
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        for name, tensor in tensors().items():
            tensor.copy_(torch.from_numpy(arrays[name]))

    return Program(update, logits, state, set_state, albert.save_pretrained)


def kerashub_program(
    model: dict[str, Any], options: argparse.Namespace
) -> Program:
    """Returns the training of our model with the library."""
    import keras
    import keras_hub

    keras.utils.set_random_seed(0)
    if options.precision == "bfloat16":
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
    backbone = keras_hub.models.AlbertBackbone(
        vocabulary_size=model["vocab_size"],
        num_layers=model["num_hidden_layers"],
        num_heads=model["num_attention_heads"],
        embedding_dim=model["embedding_size"],
        hidden_dim=model["hidden_size"],
        intermediate_dim=model["intermediate_size"],
        dropout=0.0,
    )
    albert = keras_hub.models.AlbertMaskedLM(backbone, preprocessor=None)
    optimizer = keras.optimizers.AdamW(
        0.0, weight_decay=WEIGHT_DECAY, global_clipnorm=1.0
    )
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    albert.compile(
        optimizer=optimizer,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=options.compile,
    )

    def inputs(batch: Batch) -> dict[str, np.ndarray]:
        return {
            "token_ids": batch["input_ids"].astype("int32"),
            "segment_ids": batch["segment_ids"].astype("int32"),
            "padding_mask": batch["input_mask"].astype("int32"),
            "mask_positions": batch["masked_lm_positions"].astype("int32"),
        }

    def update(batch: Batch, rate: float) -> None:
        albert.optimizer.learning_rate = rate
        albert.train_on_batch(
            inputs(batch),
            batch["masked_lm_ids"].astype("int32"),
            sample_weight=batch["masked_lm_weights"].astype("float32"),
        )

    def logits(batch: Batch) -> dict[str, np.ndarray]:
        found = albert.predict_on_batch(inputs(batch))
        return {"words": np.asarray(found, "float32")}

    def variables() -> dict[str, Any]:
        optimizer.build(albert.trainable_variables)
        found = [*albert.variables, *optimizer.variables]
        return {str(number): one for number, one in enumerate(found)}

    def state() -> dict[str, np.ndarray]:
        return {name: np.array(one) for name, one in variables().items()}

    def set_state(arrays: dict[str, np.ndarray]) -> None:
        for name, variable in variables().items():
            variable.assign(arrays[name])

    return Program(update, logits, state, set_state, backbone.save_to_preset)


def scores(
    logits: Callable[[Batch], dict[str, np.ndarray]], held_out: list[Batch]
) -> dict[str, float]:
    """Returns the scores of a held-out set, by the names of our log."""
    sums = np.zeros(3)
    order = []
    for batch in held_out:
        found = logits(batch)
        words = found["words"]
        words = words - words.max(-1, keepdims=True)
        words -= np.log(np.exp(words).sum(-1, keepdims=True))
        ids = batch["masked_lm_ids"].astype(int)
        weights = batch["masked_lm_weights"]
        chosen = np.take_along_axis(words, ids[..., None], 2)[..., 0]
        is_right = words.argmax(-1) == ids
        sums += [
            weights.sum(),
            -(chosen * weights).sum(),
            (is_right * weights).sum(),
        ]
        if "order" in found:
            answers = found["order"].argmax(-1)
            # The other rows fill the last batch.
            is_row = batch["example_weights"] > 0
            order += [*(answers == batch["sentence_order_labels"])[is_row]]
    result = {
        "eval_masked_lm_loss": float(sums[1] / sums[0]),
        "eval_masked_lm_accuracy": float(sums[2] / sums[0]),
    }
    if order:
        result["eval_sentence_order_accuracy"] = float(np.mean(order))
    return result


def train(
    program: Program, options: argparse.Namespace, held_out: list[Batch]
) -> None:
    """Makes the updates that are missing, and writes the log."""
    size, last = options.train_batch_size, options.num_train_steps
    path = options.run / "state.npz"
    log = options.run / "metrics.jsonl"
    first, lines = 0, []
    if path.exists():
        arrays = dict(np.load(path))
        first = int(arrays.pop("step"))
        program.set_state(arrays)
        lines = [json.loads(line) for line in log.read_text().splitlines()]

    def write(step: int, **values: float) -> None:
        lines.append({"step": step, **values})
        partial = log.with_suffix(".partial")
        partial.write_text("".join(json.dumps(line) + "\n" for line in lines))
        os.replace(partial, log)

    # What was logged after the state was saved comes again.
    lines = [line for line in lines if line["step"] <= first]
    if not lines:
        write(0, **scores(program.logits, held_out))
    given = batches(options.folder / "train.npz", size)
    seconds = 0.0
    for step, batch in enumerate(itertools.islice(given, first, last), first):
        warm = (step + 1) / max(1, options.num_warmup_steps)
        rate = options.learning_rate * min(warm, 1 - step / last)
        start = time.perf_counter()
        program.update(batch, rate)
        seconds += time.perf_counter() - start
        done = step + 1
        if done % LOG_EVERY == 0:
            write(done, sequences_per_second=LOG_EVERY * size / seconds)
            seconds = 0.0
        if done % SAVE_EVERY == 0 or done == last:
            write(done, **scores(program.logits, held_out))
            partial = options.run / "partial.npz"
            np.savez(partial, step=done, **program.state())
            os.replace(partial, path)
            program.save(str(options.run / "model"))


def main() -> None:
    """Trains and writes the log."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", choices=("transformers", "kerashub"))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("--learning_rate", type=float, required=True)
    parser.add_argument("--train_batch_size", type=int, default=32)
    parser.add_argument("--num_train_steps", type=int, required=True)
    parser.add_argument("--num_warmup_steps", type=int, default=0)
    parser.add_argument(
        "--precision", choices=("float32", "bfloat16"), default="float32"
    )
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    model = json.loads((options.folder / "albert_config.json").read_text())
    make = {
        "transformers": transformers_program,
        "kerashub": kerashub_program,
    }[options.program]
    arrays = dict(np.load(options.folder / "held_out.npz"))
    rows = range(0, len(arrays["input_ids"]), 64)
    held_out = [
        {name: values[start : start + 64] for name, values in arrays.items()}
        for start in rows
    ]
    options.run.mkdir(parents=True, exist_ok=True)
    (options.run / "run.json").write_text(
        json.dumps(vars(options), default=str)
    )
    train(make(model, options), options, held_out)


if __name__ == "__main__":
    main()
