"""Whole runs on small texts: which of them count as degenerate.

Imbalanced sets that can be learnt, and runs that learn nothing, because their
learning rate is too high or because all their texts are the same.
"""

import dataclasses
import functools

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.metrics import classification
from albert_tf.tasks.classification.data import ClassificationData
from albert_tf.tasks.classification.model import ClassificationTask
from albert_tf.tasks.labelled_texts import ClassificationExample
from albert_tf.tasks.task_data import ExampleSet, Sets
from albert_tf.text import tokenizer as tokenizer_lib
from albert_tf.training import finetune
from albert_tf.training.run_config import FinetuningConfig

S = 32
WORDS = ("river", "bridge", "clock", "water", "light", "garden", "winter")
WORDS += ("morning", "road", "house", "people", "children", "window", "station")
# Words that decide, one for each of 20 labels.
SIGNS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SIGNS += ("ten", "red", "green", "blue", "white", "black", "gold", "iron")
SIGNS += ("glass", "stone", "wood")
# By share of positives: that of texts with the sign, and the probability to be
# positive with and without it. No text is more likely positive than not.
SIGN_SHARES = {
    0.01: (0.02, 0.45, 0.001),
    0.036: (0.10, 0.30, 0.0067),
    0.1: (0.20, 0.40, 0.025),
    0.5: (0.50, 0.80, 0.2),
}
SCALES = {"small": (0.00025, 0.0001), "medium": (2.5, 1.0), "large": (1e6, 500)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One run of the table.

    Args:
        task: `positive`, `labels`, `numbers`.
        of: Share of positives, or scale of numbers.
        problem: Why nothing is learnt: `rate`; `texts` that are the same; or
            the seed, with which all rows have the `same` probabilities: they
            differ by 0.0001, and rank the rows well.
    """

    task: str
    of: object = None
    problem: str = ""
    seed: int = 0

    def __str__(self):
        return " ".join(map(str, filter(None, dataclasses.astuple(self))))


def text_of(rng, *signs):
    words = [*rng.choice(WORDS, int(rng.integers(3, 7))), *signs]
    return " ".join(rng.permutation(words).tolist())


def positive_examples(case, rng, number):
    share, *positives = SIGN_SHARES[case.of]
    counts = (round(share * number), round((1 - share) * number))
    for count, positive, signs in zip(
        counts, positives, (SIGNS[:1], ()), strict=True
    ):
        for i in range(count):
            yield text_of(rng, *signs), int(i < round(positive * count))


def label_examples(case, rng, number):
    for _ in range(number):
        label = int(rng.integers(20))
        # A fifth of the texts have the sign of another label.
        sign = label if rng.random() < 0.8 else int(rng.integers(20))
        yield text_of(rng, SIGNS[sign]), label


def number_examples(case, rng, number):
    mean, spread = SCALES[case.of]
    for _ in range(number):
        sign = int(rng.integers(3))
        value = mean + spread * (sign - 1 + 0.5 * rng.normal())
        yield text_of(rng, SIGNS[sign]), float(value)


EXAMPLES = {
    "positive": positive_examples,
    "labels": label_examples,
    "numbers": number_examples,
}


def classification_of(case, rng, tokenizer):
    labels = {"positive": 2, "labels": 20, "numbers": 0}[case.task]
    names = tuple(f"label {i:02}" for i in range(labels))
    mean, spread = SCALES.get(case.of, (0, 1))
    data = ClassificationData(
        name="custom",
        labels=names,
        score_names=classification.names_for(names, multi_label=False),
        tokenizer=tokenizer,
        max_seq_length=S,
        target_mean=mean,
        target_scale=spread,
    )
    sets = [
        [
            ClassificationExample(guid=str(i), text_a=text, label=label)
            for i, (text, label) in enumerate(
                EXAMPLES[case.task](case, rng, number)
            )
        ]
        for number in (4000, 2000)
    ]
    make_task = functools.partial(ClassificationTask, num_labels=labels)
    return data, sets, make_task


def same_texts(examples):
    """Gives all examples the text of the first one."""
    changes = {"text_a": examples[0].text_a}
    return [dataclasses.replace(one, **changes) for one in examples]


def arguments(case, folder, tokenizer):
    """Returns what `finetune.run` takes."""
    data, sets, make_task = classification_of(
        case, np.random.default_rng(case.seed), tokenizer
    )
    if case.problem == "texts":
        sets = [same_texts(one) for one in sets]
    is_too_high = case.problem == "rate"
    settings = {
        "learning_rate": 5.0 if is_too_high else 0.003,
        "num_train_steps": 500 if case.task == "positive" else 300,
        "num_warmup_steps": 0 if is_too_high else 20,
    }
    config = FinetuningConfig(
        albert_config=AlbertConfig(
            vocab_size=tokenizer.vocab_size,
            embedding_size=8,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=S,
            initializer_range=0.2,
            hidden_dropout_prob=0,
            attention_probs_dropout_prob=0,
        ),
        output_dir=str(folder / str(case)),
        optimizer="adamw",
        train_batch_size=32,
        eval_batch_size=100,
        save_checkpoints_steps=100,
        strategy="one",
        max_seq_length=S,
        random_seed=case.seed,
        do_train=True,
        **settings,
    )
    train, evaluation = (ExampleSet(examples=one, data=data) for one in sets)
    return config, Sets(train=train, evaluation=(evaluation,)), make_task


LEARNT = [
    *(
        Case(task="positive", of=share, seed=seed)
        for share in (0.01, 0.036, 0.1)
        for seed in (0, 2)
    ),
    *(Case(task="labels", seed=seed) for seed in range(3)),
    *(
        Case(task="numbers", of=scale, seed=seed)
        for scale in SCALES
        for seed in range(2)
    ),
]
FAILED = [
    *(
        Case(task="positive", of=share, problem="same", seed=seed)
        for share, seed in ((0.01, 1), (0.036, 1), (0.036, 3), (0.1, 1))
    ),
    *(
        Case(task="positive", of=share, problem="rate", seed=seed)
        for share in (0.036, 0.5)
        for seed in range(2)
    ),
    Case(task="labels", problem="rate"),
    Case(task="numbers", of="medium", problem="rate"),
    *(Case(task="positive", of=s, problem="texts") for s in SIGN_SHARES),
    Case(task="labels", problem="texts"),
    Case(task="numbers", of="small", problem="texts"),
    Case(task="numbers", of="large", problem="texts"),
]


@pytest.mark.slow
def test_of_32_runs_those_that_learn_nothing_are_degenerate(tmp_path):
    # A tokenizer with an id for every word.
    vocabulary = tmp_path / "vocab.txt"
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *SIGNS]
    vocabulary.write_text("".join(f"{token}\n" for token in tokens))
    tokenizer = tokenizer_lib.load_tokenizer(vocab_file=str(vocabulary))
    cases = [*LEARNT, *FAILED]

    wrong = []
    for case in cases:
        result = finetune.run(*arguments(case, tmp_path, tokenizer))
        if result.scores.is_degenerate != bool(case.problem):
            wrong.append(str(case))

    assert len(cases) == 32
    assert not wrong
