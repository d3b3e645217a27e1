"""Settings that are invalid or contradict each other are refused at once."""

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.training.pretrain_config import PretrainingConfig
from albert_tf.training.run_config import LARGEST_SEED, FinetuningConfig

ALBERT = AlbertConfig(vocab_size=9, max_position_embeddings=64)


def pretraining(**values):
    defaults = {
        "albert_config": ALBERT,
        "input_file": "records",
        "max_seq_length": 64,
        "num_train_steps": 100,
        "num_warmup_steps": 0,
    }
    return PretrainingConfig(**defaults | values)


def finetuning(**values):
    defaults = {"albert_config": ALBERT, "max_seq_length": 64, "do_eval": True}
    return FinetuningConfig(**defaults | values)


@pytest.mark.parametrize(
    ("make", "name", "at_least"),
    [
        *(
            (pretraining, name, 1)
            for name in (
                "train_batch_size",
                "eval_batch_size",
                "num_train_steps",
                "gradient_accumulation_steps",
                "save_checkpoints_steps",
                "keep_checkpoint_max",
                "log_steps",
                "max_seq_length",
                "max_predictions_per_seq",
                "ngram",
                "max_eval_steps",
            )
        ),
        (pretraining, "iterations_per_loop", 0),
        (pretraining, "random_seed", 0),
        (finetuning, "max_seq_length", 1),
        (finetuning, "predict_batch_size", 1),
        (finetuning, "num_seeds", 1),
        (finetuning, "num_folds", 1),
        (finetuning, "early_stopping_patience", 0),
    ],
)
def test_numbers_have_a_smallest_value(make, name, at_least):
    assert getattr(make(**{name: at_least}), name) == at_least
    with pytest.raises(
        ValueError,
        match=f"`{name}` must be .* at least {at_least}.*={at_least - 1}",
    ):
        make(**{name: at_least - 1})


NOTHING_TO_DO = "There is nothing to do. Pass --do_train"
NOT_SHARED = "`depth_schedule` needs a model whose layers share all"


@pytest.mark.parametrize(
    ("make", "values", "message"),
    [
        (pretraining, {"random_seed": LARGEST_SEED + 1}, "at most 2147483647"),
        (pretraining, {"strategy": "huge"}, "`strategy` must be one of"),
        (pretraining, {"precision": "huge"}, "`precision` .*ion='huge'"),
        (pretraining, {"read_order": "sets"}, "`read_order` must be .*'sets'"),
        (pretraining, {"cluster": "huge"}, "`cluster` must be one of"),
        (pretraining, {"optimizer": "sgd"}, "`optimizer` must be one of"),
        (pretraining, {"max_seq_length": 65}, "at least 1 and at most 64"),
        (pretraining, {"length_schedule": "65@0,64@5"}, "max_seq_length=65"),
        (finetuning, {"max_seq_length": 65}, "at least 1 and at most 64"),
        (
            pretraining,
            {"cluster": "slurm", "strategy": "mirrored"},
            "multi_worker. .*strategy='mirrored'",
        ),
        (
            finetuning,
            {"cluster": "slurm", "tpu_name": "local"},
            "`cluster` names the workers of --strategy=multi_worker",
        ),
        (finetuning, {"tpu_name": "pod"}, "without --tpu_name.*='pod'"),
        (finetuning, {"do_eval": False}, NOTHING_TO_DO),
        (pretraining, {"do_train": False}, NOTHING_TO_DO),
        (finetuning, {"layerwise_lr_decay": 1.1}, "above 0 and at most 1"),
        (pretraining, {"masked_lm_prob": 0.0}, "`masked_lm_prob` must be"),
        (pretraining, {"objectives": ()}, "`objectives` .* mlm, sop, each"),
        (pretraining, {"objectives": ("mlm", "nsp")}, "objectives=mlm,nsp"),
        (pretraining, {"objectives": ("sop", "sop")}, "objectives=sop,sop"),
        (
            pretraining,
            {"input_file": "gs://a/b"},
            "Pass --read_order=files, or copy.*input_file='gs://a/b'",
        ),
        (pretraining, {"best_metric": "loss"}, "`best_metric` needs --do_eval"),
        (
            pretraining,
            {"init_from_group0": True},
            "`init_from_group0` needs --init_checkpoint",
        ),
        (
            pretraining,
            {"continue_from": "a", "init_checkpoint": "b"},
            "`continue_from` and `init_checkpoint` exclude each other",
        ),
        (
            pretraining,
            {"mask_schedule": "0.3@0,0.2@5", "masked_lm_prob": 0.2},
            "`mask_schedule` and `masked_lm_prob` exclude each other",
        ),
        *(
            (
                pretraining,
                {
                    "depth_schedule": "6@0,12@5",
                    "albert_config": AlbertConfig(vocab_size=9, **sharing),
                },
                NOT_SHARED,
            )
            for sharing in (
                {"num_hidden_groups": 2},
                {"parameter_sharing": "attention"},
            )
        ),
        *(
            (pretraining, {name: text}, f"`{name}` must {words}.*={text!r}")
            for name, text, words in (
                ("depth_schedule", "3-0", "be one or more of VALUE@STEP"),
                ("depth_schedule", "3@0, 12@5", "be one or more of VALUE@STEP"),
                ("depth_schedule", "3@1,12@5", "begin at step 0"),
                ("depth_schedule", "3@0,6@9,12@9", "begin .* at a later step"),
                ("depth_schedule", "3@0,6@9", "end with num_hidden_layers=12"),
                ("length_schedule", "16@0", "end with max_seq_length=64"),
                ("batch_schedule", "8@0", "end with train_batch_size=4096"),
                ("depth_schedule", "0@0,12@9", "have values of at least 1"),
                ("batch_schedule", "2.5@0", "be one or more of VALUE@STEP"),
                ("depth_schedule", "13@0,12@9", "have no more layers than"),
                ("mask_schedule", "30@0", "have values above 0 and at most 1"),
                ("mask_schedule", "0.3@0,0@9", "have values above 0"),
                ("mask_schedule", ".3@0", "be one or more of VALUE@STEP"),
                ("depth_schedule", "3@0,12@100", "begin its last phase before"),
            )
        ),
    ],
)
def test_an_invalid_setting_is_named(make, values, message):
    with pytest.raises(ValueError, match=message):
        make(**values)
