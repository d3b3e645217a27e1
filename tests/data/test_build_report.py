"""The warnings of whole builds are tested in test_builder.py."""

import pytest

from albert_tf.data import build_report
from albert_tf.data.build_report import BuildReport
from albert_tf.data.pretraining_config import PretrainingDataConfig
from albert_tf.data.sidecar import BuildCounts

COUNTS = BuildCounts(
    documents=3,
    sentences=1200,
    tokens=20_000,
    unknown_tokens=50,
    lone_tokens=2_500,
    chunks_without_pair=7,
    tokens_left_out=80_000,
    records=400,
    label_1_records=190,
    record_tokens=40_000,
    masked_tokens=6_000,
)


def summary(*, built=COUNTS, kept_files=(), num_bad_lines=0, **settings):
    """The lines of a printed report, by name."""
    report = BuildReport(
        num_bad_lines=num_bad_lines,
        config=PretrainingDataConfig(max_seq_length=128, **settings),
        counts=COUNTS,
        built=built,
        kept_files=kept_files,
        seconds=2.0,
    )
    pairs = (line.partition("  ") for line in str(report).splitlines())
    return {name: value.strip() for name, _, value in pairs}


def test_the_summary_of_a_static_build():
    assert summary() == {
        "documents": "3",
        "sentences": "1,200",
        "tokens": "20,000",
        "unknown tokens": "0.25%",
        "tokens left out": "80,000 of 40 copies (10.0%)",
        "records": "400",
        "chunks without a pair": "7",
        "label 1": "47.5%",
        "mean length": "100.0 of 128",
        "padding": "21.9%",  # 1 - 100 / 128
        "masked tokens": "15.0%",
        "tokens a second": "10,000 read, 20,000 written",
    }


@pytest.mark.parametrize(
    ("changes", "name", "value"),
    [
        (
            {"masking": "dynamic", "dupe_factor": 4},
            "tokens left out",
            "80,000 of 4 copies (100.0%)",
        ),
        ({"num_bad_lines": 3}, "bad lines skipped", "3"),
        ({"masking": "dynamic"}, "label 1", "half, drawn when read"),
        ({"masking": "dynamic"}, "masked tokens", "drawn when read"),
        (
            {"masking": "dynamic", "pair_objective": "nsp"},
            "label 1",
            "47.5%",
        ),
        ({"pair_objective": "none"}, "label 1", "no pairs"),
        (
            {"pair_objective": "nsp"},
            "lone documents",
            "12.5% of the tokens",
        ),
        ({"built": BuildCounts()}, "tokens a second", "nothing to build"),
        ({"kept_files": ("a", "b")}, "b is finished; it is kept", ""),
    ],
)
def test_the_summary_of_other_builds(changes, name, value):
    assert summary(**changes)[name] == value


@pytest.mark.parametrize(
    ("lone_tokens", "settings", "is_warned"),
    [
        (2_500, {"pair_objective": "nsp"}, True),
        (2_500, {"reference_pairs": True}, True),
        (1_500, {"pair_objective": "nsp"}, False),
        (2_500, {}, False),
    ],
)
def test_much_text_without_another_document_is_warned_of(
    caplog, lone_tokens, settings, is_warned
):
    report = BuildReport(
        config=PretrainingDataConfig(**settings),
        counts=BuildCounts(tokens=20_000, lone_tokens=lone_tokens),
        built=COUNTS,
        kept_files=(),
        seconds=2.0,
    )

    build_report.warn(report)

    assert ("come from that same document" in caplog.text) == is_warned
