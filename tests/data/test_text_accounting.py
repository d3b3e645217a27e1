"""Every token of a text is in a record, or counted as left out."""

import numpy as np
import pytest

from albert_tf.data import builder, example_codec, record_source
from albert_tf.data.pretraining_config import PretrainingDataConfig
from tests import tiny
from tests.data.records import FIRST_ID, restored, stack

STOPS = (".", "\u3002")
NUM_WORDS = 6000


class Writer:
    """Writes sentences in which no word occurs twice."""

    def __init__(self, *, is_chinese=False):
        self.words = [
            chr(0x4E00 + n) if is_chinese else f"w{n}" for n in range(NUM_WORDS)
        ]
        self.stop, self.space = ("\u3002", "") if is_chinese else (" .", " ")
        self.next = 0
        self.rng = np.random.default_rng(0)

    def sentence(self, shortest=5, longest=40, stop=None):
        first = self.next
        self.next += int(self.rng.integers(shortest, longest + 1))
        words = self.space.join(self.words[first : self.next])
        return words + (self.stop if stop is None else stop)

    def paragraph(self):
        return " ".join(self.sentence() for _ in range(6))


def documents(lines, size):
    """Text of documents of `size` lines."""
    parts = [lines[i : i + size] for i in range(0, len(lines), size)]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def prose(writer):
    lines = [writer.sentence() for _ in range(240)]
    return documents(lines[:80], 40) + "\n" + documents(lines[80:], 7)


def paragraphs(writer):
    return documents([writer.paragraph() for _ in range(40)], 8)


def long_lines(writer):
    return documents([writer.sentence(600, 900, "") for _ in range(7)], 2)


def lone_paragraphs(writer):
    return documents([writer.paragraph() for _ in range(40)], 1)


def short_documents(writer):
    lines = [writer.sentence(1, 12, "") for _ in range(400)]
    return documents(lines[:100], 2) + "\n" + documents(lines[100:], 1)


CORPORA = {
    "prose": prose,
    "paragraphs": paragraphs,
    "long lines": long_lines,
    "lone paragraphs": lone_paragraphs,
    "short documents": short_documents,
    "Chinese": prose,
}


def make_config(folder, text, words, **settings):
    """Writes a text and its vocabulary; returns the config of a build."""
    (folder / "text").write_text(text, encoding="utf-8")
    return PretrainingDataConfig(
        input_file=str(folder / "text"),
        vocab_file=tiny.write_vocabulary(folder / "vocab", [*STOPS, *words]),
        **{"output_file": str(folder / "out")} | settings,
    )


def words_of(path, config):
    """Returns the tokens of each record, without special tokens."""
    source = record_source.open_records(str(path))
    records = [
        example_codec.decode_example(record)
        for record in source.get(range(source.num_records))
    ]
    if config.masking == "dynamic":
        return [record["pair_ids"] for record in records]
    return [row[row >= FIRST_ID] for row in restored(stack(records))]


@pytest.mark.parametrize("name", CORPORA)
@pytest.mark.parametrize(
    ("max_seq_length", "masking", "pair_objective"),
    [
        (128, "static", "sop"),
        (512, "dynamic", "sop"),
        (128, "static", "nsp"),
        (512, "dynamic", "none"),
    ],
)
def test_tokens_read_are_tokens_in_records_and_tokens_left_out(
    tmp_path, name, max_seq_length, masking, pair_objective
):
    writer = Writer(is_chinese=name == "Chinese")
    text = CORPORA[name](writer)
    num_stops = text.count(".") + text.count("\u3002")
    config = make_config(
        tmp_path,
        text,
        writer.words,
        max_seq_length=max_seq_length,
        masking=masking,
        pair_objective=pair_objective,
        dupe_factor=1,
        # Long lines give no sentence-order pair if they are not divided.
        keep_more_text=True if name.startswith("lo") else None,
    )

    counts = builder.build(config).counts

    rows = words_of(tmp_path / "out", config)
    assert counts.tokens == writer.next + num_stops
    # Both rows and records may hold a token more than once.
    assert sum(map(len, rows)) == (
        counts.tokens - counts.tokens_left_out + counts.tokens_repeated
    )
    ids = np.unique(np.concatenate(rows))
    num_missing = writer.next - (ids >= FIRST_ID + len(STOPS)).sum()
    assert num_missing <= counts.tokens_left_out <= num_missing + num_stops
    share = counts.tokens_left_out / counts.tokens
    if pair_objective == "none":
        assert share == 0
    elif config.keep_more_text and name != "short documents":
        assert share < 0.05
    if pair_objective == "sop" and name == "short documents":
        assert share > 0.7  # Documents of one sentence.


def test_each_copy_is_counted(tmp_path):
    writer = Writer()
    text, counts, covered = prose(writer), {}, {}
    for num_copies in (1, 2, 5):
        config = make_config(
            tmp_path,
            text,
            writer.words,
            output_file=str(tmp_path / f"out{num_copies}"),
            max_seq_length=64,
            masking="dynamic",
            dupe_factor=num_copies,
        )
        found = builder.build(config).counts
        rows = words_of(config.output_file, config)
        assert sum(map(len, rows)) == (
            num_copies * found.tokens
            - found.tokens_left_out
            + found.tokens_repeated
        )
        counts[num_copies] = found
        covered[num_copies] = len(np.unique(np.concatenate(rows)))

    assert counts[1].tokens == counts[5].tokens
    assert 3 < counts[5].tokens_left_out / counts[1].tokens_left_out < 7
    # Every copy leaves out other tokens.
    num_missing = {n: writer.next + 1 - k for n, k in covered.items()}
    assert num_missing[5] < num_missing[1] / 10
