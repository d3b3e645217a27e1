import pytest

from albert_tf.export.export_config import ExportConfig


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"export_dir": ""}, "--init_checkpoint and --export_dir must be"),
        ({"task": "poetry"}, "`task` must be one of encoder.*task='poetry'"),
        ({"precision": "int8"}, "`precision` must be one of float32, bfloat16"),
        ({"export_version": 0}, "`export_version` must be .* at least 1"),
        ({"num_choices": 1}, "`num_choices` must be .* at least 2.*=1"),
        ({"labels": ("a", "b")}, "`labels` can only be given.*labels=a,b"),
        (
            {"labels": ("a", "a"), "task": "classifier"},
            "`labels` must differ.*labels=a,a",
        ),
        ({"null_from_cls": True}, "`null_from_cls` can only be.*task=encoder"),
        ({"vocab_file": "vocab"}, "`vocab_file` must end in .txt. Pass a"),
        (
            {"precision": "bfloat16", "tflite": True},
            "`tflite` needs precision='float32'. Received.*bfloat16",
        ),
        ({"task": "race", "tflite": True}, "`tflite` is available for encoder"),
        ({"exit_patience": -1}, "`exit_patience` must be .*at least 0"),
        ({"exit_patience": 2}, "is available for classifier.*task=encoder"),
        (
            {"task": "squad", "exit_patience": 2},
            "`exit_patience` is available for classifier, race.*task=squad",
        ),
        (
            {"task": "classifier", "exit_patience": 2, "tflite": True},
            "`tflite` has no early exit. Received: exit_patience=2",
        ),
        (
            {"task": "race", "max_seq_length": 64},
            "must be greater than `max_qa_length`",
        ),
        (
            {"task": "squad", "max_seq_length": 64},
            "must be greater than `max_query_length`",
        ),
        (
            {"task": "squad", "n_best_size": 0},
            "`n_best_size` must .* 1",
        ),
    ],
)
def test_impossible_values(values, words):
    with pytest.raises(ValueError, match=words):
        ExportConfig(**{"init_checkpoint": "a", "export_dir": "b"} | values)


@pytest.mark.parametrize(
    ("values", "length"),
    [
        ({}, 512),
        ({"task": "squad"}, 384),
        ({"task": "squad", "max_seq_length": 100}, 100),
    ],
)
def test_the_sequence_length_of_a_task(values, length):
    config = ExportConfig(init_checkpoint="a", export_dir="b", **values)

    assert config.seq_length == length
