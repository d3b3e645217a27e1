"""Raw text gives the answers of the Python path: both versions of SQuAD."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints.metadata import Metadata
from albert_tf.data.record_columns import Padding
from albert_tf.inference.record_outputs import OutputComputer
from albert_tf.metrics.scores import Scores
from albert_tf.serving import ragged
from albert_tf.serving.graph_tokenizer import Tokens
from albert_tf.tasks.squad import signatures
from albert_tf.tasks.squad import windows as windows_lib
from albert_tf.tasks.squad.data import SquadData
from albert_tf.tasks.squad.examples import SquadExample
from albert_tf.tasks.squad.windows import WindowLengths
from albert_tf.tasks.task_data import ExampleSet

TEXTS = [
    "  The house. ",
    "",
    "é 漢\u2028字\x1c👩‍👩‍👧 \0 x",
    " \t\n\xa0\u3000 ",
    "a",
]


SIZES = [(2, 0), (0, 1), (1, 9), (9, 30), (3, 31), (4, 100)]


def tokens_of(sizes):
    """Tokens of questions and contexts, numbered from 100."""
    lengths = [q for q, _ in sizes] + [c for _, c in sizes]
    ids = 100 + tf.range(sum(lengths))
    splits = ragged.sums_before(tf.constant(lengths))
    return Tokens(ids=ids, row_splits=splits, starts=ids, ends=ids)


@pytest.mark.parametrize(
    ("max_seq_length", "doc_stride"), [(12, 3), (12, 40), (20, 1), (38, 8)]
)
def test_windows_and_owners_are_as_in_python(max_seq_length, doc_stride):
    lengths = WindowLengths(
        max_seq_length=max_seq_length, doc_stride=doc_stride, max_query_length=5
    )
    tokens = tokens_of(SIZES)

    found = signatures.split_contexts(tokens, lengths)
    owners = signatures.best_windows(found, tf.size(tokens.ids)).numpy()

    number = 0
    first = sum(q for q, _ in SIZES)
    for row, (question, context) in enumerate(SIZES):
        kept = min(question, 5)
        expected = windows_lib.split_windows(
            context, size=max_seq_length - kept - 3, stride=doc_stride
        )
        own = slice(number, number + len(expected))
        assert set(found.rows[own].numpy()) == {row}
        assert found.contexts.starts[own].numpy().tolist() == [
            first + window.start for window in expected
        ]
        sizes = found.contexts.sizes[own].numpy()
        assert sizes.tolist() == list(map(len, expected))
        assert set(found.questions.sizes[own].numpy()) == {kept}
        np.testing.assert_array_equal(
            owners[first : first + context],
            number + windows_lib.best_windows(context, expected),
        )
        number, first = own.stop, first + context
    assert number == len(found.rows)


PAIRS = [
    ("Who?", "The old man sat by the river, and the boy ran."),
    ("", "No question at all."),
    ("Nothing?", ""),
    ("White space?", "  \t\n  \x1c "),
    ("What " * 30 + "?", "A very long question \u2028 about  little."),
    ("Où?", "Ünïcödé: 漢字かな, 👩‍👩‍👧 ﷺ ½ Ⅳ \u0301x " * 3),
    ("Zero?", "a\0b \x01 c 1,234, 25, and\xa0more "),
    ("How long?", "The house stood on a hill. " * 20),
    ("Same?", "the the the the the the the the the " * 5),
]


def examples_of(pairs):
    return [
        SquadExample(guid=str(number), question=question, context=context)
        for number, (question, context) in enumerate(pairs)
    ]


def python_outputs(exported, examples):
    """The task, its questions, the outputs of all windows, and predictions."""
    is_version_2 = exported.spec.head.name == "beam_span"
    data = SquadData(
        tokenizer=exported.tokenizer,
        lengths=exported.settings.window_lengths(),
        limits=exported.settings.span_limits(),
        version_2_with_negative=is_version_2,
        null_score_diff_threshold=exported.settings.null_score_diff_threshold,
    )
    questions = data.questions(examples)
    computer = OutputComputer(
        exported.spec.answer_task(data, exported.model),
        Padding(max_seq_length=data.max_seq_length, bucket_width=None),
    )
    asked = ExampleSet(examples=questions, data=data)
    [(_, outputs)] = computer.run_chunks(asked, 8)
    found = list(data.predict(questions, outputs))
    return data, questions, outputs, found


def check_equal(exported, pairs):
    questions, contexts = zip(*pairs, strict=True)
    answered = exported.ask(question=questions, context=contexts)

    data, _, _, found = python_outputs(exported, examples_of(pairs))
    texts = data.final_texts(found, data.null_threshold(Scores()))
    assert [text.decode() for text in answered["answer"]] == texts
    np.testing.assert_allclose(
        answered["logit"],
        [
            one.spans[0].start_log_prob + one.spans[0].end_log_prob
            for one in found
        ],
        atol=1e-4,
    )
    np.testing.assert_allclose(
        answered["null_score"], [one.null_odds for one in found], atol=1e-4
    )
    for text, context, start, end in zip(
        texts, contexts, answered["start"], answered["end"], strict=True
    ):
        if text:
            assert context[start:end] == text
        else:
            assert (start, end) == (-1, -1)
    return texts


@pytest.mark.parametrize("head", ["span", "beam_span"])
def test_made_questions(head, exported):
    texts = check_equal(exported(head), PAIRS)

    if head == "span":
        assert [bool(text) for text in texts] == [
            bool(context.strip()) for _, context in PAIRS
        ]
    assert any(texts)


def test_where_no_likely_span_is_valid_all_spans_are_searched(export_task):
    texts = check_equal(export_task("span", n_best_size=1), PAIRS)

    assert sum(map(bool, texts)) == sum(bool(c.strip()) for _, c in PAIRS)


def test_the_logits_of_cls_may_say_that_there_is_no_answer(export_task):
    exported = export_task("span", null_from_cls=True)
    asked, contexts = zip(*PAIRS, strict=True)

    answered = exported.ask(question=asked, context=contexts)

    _, questions, outputs, found = python_outputs(exported, examples_of(PAIRS))
    # The score of [CLS], the first token, where it is least.
    ends = np.cumsum([len(one.windows) for one in questions.windowed])
    rows = zip(outputs["start_logits"], outputs["end_logits"], strict=True)
    of_cls = np.array([start[0] + end[0] for start, end in rows])
    of_cls = [part.min() for part in np.split(of_cls, ends[:-1])]
    spans = [one.spans[0] for one in found]
    odds = np.array(
        [
            null - span.start_log_prob - span.end_log_prob
            for null, span in zip(of_cls, spans, strict=True)
        ]
    )
    np.testing.assert_allclose(answered["null_score"], odds, rtol=1e-4)
    assert [text.decode() for text in answered["answer"]] == [
        "" if null >= 0 else span.text
        for null, span in zip(odds, spans, strict=True)
    ]
    assert 2 < (odds >= 0).sum() < len(odds)
    assert max(ends[1:] - ends[:-1]) > 1


def test_litert_cannot_say_that_there_is_no_answer(export_task):
    known = Metadata(null_from_cls=True)

    with pytest.raises(ValueError, match="litert is without `null_from_cls`"):
        export_task("span", known=known, format="litert")


def test_a_context_of_100_000_characters(exported):
    word = "the house and the hill "
    contexts = [word * (100_000 // len(word)), "漢" * 100_000, "\0" * 1000]

    found = exported("span").ask(question=["Where?"] * 3, context=contexts)

    for context, answer, start, end in zip(
        contexts, found["answer"], found["start"], found["end"], strict=True
    ):
        assert start == end == -1 or context[start:end] == answer.decode()
    assert found["answer"][0]


def test_bytes_that_are_not_utf_8_count_as_replacements(exported):
    context = b"the \xff\xfe house \xe2\x82 stood"

    found = exported("span").ask(question=["x"], context=[context])

    text = context.decode(errors="replace")
    start, end = found["start"][0], found["end"][0]
    assert found["answer"][0].decode() == text[start:end] != ""
