"""The signatures of a SQuAD model: the answer to a question about a context.

A context that is longer than the model's input is read in windows that
overlap; the answer is the best one of all windows.

Data flow: question, context -> tokens -> [this file] -> answer.
Source: google-research/albert, run_squad_v1.py and run_squad_v2.py, for ids;
`tasks.squad.data`: answers to raw text are equal.
"""

import dataclasses
import math
from typing import NamedTuple

import tensorflow as tf

from albert_tf.modeling.span_models import BeamSpanModel
from albert_tf.serving import model_inputs, ragged, signature
from albert_tf.serving.graph_tokenizer import CPU, GraphTokenizer, Tokens
from albert_tf.serving.ragged import Ranges
from albert_tf.serving.signature import Signature, Tensors
from albert_tf.tasks.lengths import NUM_SPECIAL_TOKENS
from albert_tf.tasks.spec import Exported
from albert_tf.tasks.squad import predictions, span_search
from albert_tf.tasks.squad.predictions import SpanLimits
from albert_tf.tasks.squad.span_search import BeamScorer, LogitScorer
from albert_tf.tasks.squad.spec import SpanSettings
from albert_tf.tasks.squad.windows import LENGTH_WEIGHT, WindowLengths

# Windows that go through the model together: memory against overhead.
_WINDOWS_PER_CALL = 16
_EXAMPLE = {
    "question": "Where did the snow fall?",
    "context": "The snow fell on the hills. In the valley it rained.",
}


def make_signatures(exported: Exported) -> list[Signature]:
    """Returns the signatures of a SQuAD model.

    Raw text gives `answer`, strings `[B]`, "" if there is none; `start` and
    `end`, int32 `[B]`, its code points in the context, -1 if there is none;
    `logit`, float32 `[B]`, of its start and end together (in version 2.0 they
    are log-probabilities), before the null threshold is applied; and
    `null_score`, float32 `[B]`, of which an answer must be below the threshold:
    0 in version 1.1, unless the scorer `compares_null`, which subtracts the
    best score. Ids give the outputs of the model.
    """
    settings: SpanSettings = exported.settings
    if exported.metadata.null_from_cls:
        settings = dataclasses.replace(settings, null_from_cls=True)
    compares_null = settings.null_from_cls
    metadata = settings.applied_to(exported.metadata)
    scorer: BeamScorer | LogitScorer
    threshold = metadata.null_threshold or 0.0
    if isinstance(exported.model, BeamSpanModel):
        scorer = BeamScorer(exported)
    else:
        scorer = LogitScorer(exported, compares_null=compares_null)
        if not compares_null:
            threshold = math.inf
    lengths, limits = settings.window_lengths(), settings.span_limits()
    reader = _Reader(scorer, exported.tokenizer, lengths, limits, threshold)
    return signature.text_and_token_signatures(
        reader.answer, scorer.outputs, example=_EXAMPLE
    )


class ContextWindows(NamedTuple):
    """W windows over the contexts of B questions; at least one for each.

    Their `rows`, int32 `[W]`, are the questions, and never decrease.
    """

    rows: tf.Tensor
    questions: Ranges  # of tokens; the same in all windows of a question
    contexts: Ranges


def split_contexts(tokens: Tokens, lengths: WindowLengths) -> ContextWindows:
    """Splits contexts into windows that together hold all their tokens.

    The windows are as in `tasks.squad.windows`. The tokens are of 2 B
    texts: B questions, then their contexts.
    """
    num_questions = (ragged.size(tokens.row_splits) - 1) // 2
    questions = tokens.rows[:num_questions]
    contexts = tokens.rows[num_questions:]
    question_sizes = tf.minimum(questions.sizes, lengths.max_query_length)
    room = lengths.max_seq_length - NUM_SPECIAL_TOKENS - question_sizes
    stride = tf.minimum(lengths.doc_stride, room)
    num_more = -(-tf.maximum(contexts.sizes - room, 0) // stride)
    rows, offsets = ragged.expand(num_more + 1)
    begins = offsets * tf.gather(stride, rows)
    return ContextWindows(
        rows=rows,
        questions=Ranges(
            starts=tf.gather(questions.starts, rows),
            sizes=tf.gather(question_sizes, rows),
        ),
        contexts=Ranges(
            starts=tf.gather(contexts.starts, rows) + begins,
            sizes=tf.minimum(
                tf.gather(room, rows), tf.gather(contexts.sizes, rows) - begins
            ),
        ),
    )


def best_windows(windows: ContextWindows, num_tokens: tf.Tensor) -> tf.Tensor:
    """Returns, int32 `[M]`, what `tasks.squad.windows.best_windows` does.

    Entries of question tokens are undefined.
    """
    sizes = windows.contexts.sizes
    indices, positions = ragged.expand(sizes)
    size = tf.gather(sizes, indices)
    side = tf.cast(tf.minimum(positions, size - 1 - positions), tf.float64)
    score = side + LENGTH_WEIGHT * tf.cast(size, tf.float64)
    token = tf.gather(windows.contexts.starts, indices) + positions
    best = tf.math.unsorted_segment_max(score, token, num_tokens)
    is_best = score == tf.gather(best, token)
    return tf.math.unsorted_segment_min(
        tf.where(is_best, indices, ragged.size(sizes)), token, num_tokens
    )


@dataclasses.dataclass(frozen=True)
class _Reader:
    """Answers questions about contexts; see `make_signatures`."""

    scorer: BeamScorer | LogitScorer
    tokenizer: GraphTokenizer
    lengths: WindowLengths
    limits: SpanLimits
    null_threshold: float

    def answer(self, question: tf.Tensor, context: tf.Tensor) -> Tensors:
        question, context = signature.same_batch(
            question=question, context=context
        )
        tokens = self.tokenizer(tf.concat([question, context], 0))
        with tf.device(CPU):
            windows = split_contexts(tokens, self.lengths)
            owners = best_windows(windows, ragged.size(tokens.ids))
        num_windows = ragged.size(windows.rows)

        def search_some(begin: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
            end = tf.minimum(begin + _WINDOWS_PER_CALL, num_windows)
            some = ContextWindows(*(values[begin:end] for values in windows))
            return end, self._search(some, begin, tokens, owners)

        types = (tf.float64, tf.int32, tf.int32)
        none = [*(tf.zeros([0, 2], one) for one in types), tf.zeros([0])]
        found = ragged.in_parts(search_some, num_windows, none)
        with tf.device(CPU):
            return self._choose(found, windows, tokens, context)

    def _search(
        self,
        windows: ContextWindows,
        first: tf.Tensor,
        tokens: Tokens,
        owners: tf.Tensor,
    ) -> list[tf.Tensor]:
        """Searches W windows with the indices from `first` on.

        Returns scores, float64, and first and last tokens, int32, of the best
        span of each set of the scorer, `[W, 2]`; and null scores, float32
        `[W]`.
        """
        ids = model_inputs.pack_ranges(
            tokens.ids,
            windows.questions,
            windows.contexts,
            special=self.tokenizer.special_ids,
            min_length=self.scorer.min_length,
        )
        outputs = self.scorer.outputs(**ids)
        # Int32 `[W, S]`: positions in the context, and tokens of all texts.
        offsets = windows.questions.sizes[:, None] + 2
        position = tf.range(tf.shape(ids["input_ids"])[1])[None] - offsets
        sizes = windows.contexts.sizes[:, None]
        is_inside = (position >= 0) & (position < sizes)
        token = windows.contexts.starts[:, None] + position
        token = tf.where(is_inside, token, 0)
        indices = first + tf.range(ragged.size(windows.rows))
        # If no text has any token, there is none to look up.
        owners = tf.concat([owners, [-1]], 0)
        is_own = tf.gather(owners, token) == indices[:, None]
        found = self.scorer.spans(outputs, ids["input_mask"], self.limits)
        best = [
            span_search.best_spans(
                spans,
                is_start=is_inside & is_own,
                is_end=is_inside,
                max_answer_length=self.limits.max_answer_length,
            )
            for spans in found
        ]
        shift = windows.contexts.starts[:, None] - offsets
        return [
            tf.concat([one.scores for one in best], 1),
            tf.concat([one.starts for one in best], 1) + shift,
            tf.concat([one.ends for one in best], 1) + shift,
            self.scorer.null_scores(outputs),
        ]

    def _choose(
        self,
        found: list[tf.Tensor],
        windows: ContextWindows,
        tokens: Tokens,
        context: tf.Tensor,
    ) -> Tensors:
        """Chooses the best window of each question and cuts out its answer."""
        rows, num_rows = windows.rows, tf.shape(context)[0]
        *spans, null_scores = found
        # The second set counts where no window has a valid span of the first.
        window = span_search.best_window(spans[0][:, 0], rows, num_rows)
        column = tf.cast(window == ragged.size(rows), tf.int32)
        scores, firsts, lasts = (
            tf.gather(values, tf.gather(column, rows), batch_dims=1)
            for values in spans
        )
        window = span_search.best_window(scores, rows, num_rows)
        logit = ragged.gather_or(scores, window, 2 * predictions.NO_SPAN_SCORE)
        first = ragged.gather_or(firsts, window, 0)
        last = ragged.gather_or(lasts, window, 0)
        null_score = tf.math.unsorted_segment_min(null_scores, rows, num_rows)
        if self.scorer.compares_null:
            null_score -= tf.cast(logit, tf.float32)
        is_answered = window < ragged.size(rows)
        is_answered &= null_score < self.null_threshold
        starts = ragged.gather_or(tokens.starts, first, 0)
        ends = ragged.gather_or(tokens.ends, last, 0)
        bounds = (tf.where(is_answered, n, 0) for n in (starts, ends))
        answer, start, end = cut_out(context, *bounds)
        return {
            "answer": answer,
            "start": start,
            "end": end,
            "logit": tf.cast(logit, tf.float32),
            "null_score": null_score,
        }


def cut_out(
    texts: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Cuts one part out of each text and strips the white space around it.

    The result equals `tasks.squad.windows.Paragraph.span_text`. Starts and
    ends, int32 `[B]`, count code points; where the end is not after the start,
    there is no part. Returns the parts, strings `[B]`, and their starts and
    ends in the text, which are -1 if nothing is left.
    """
    # Bytes that are not UTF-8 become characters that can be counted.
    texts = ragged.encode(*ragged.decode(texts))
    sizes = tf.maximum(ends - starts, 0)
    parts = tf.strings.substr(texts, starts, sizes, unit="UTF8_CHAR")
    space = ragged.WHITE_SPACE
    left = tf.strings.regex_replace(parts, f"^{space}+", "")
    starts += _num_characters(parts) - _num_characters(left)
    parts = tf.strings.regex_replace(left, f"{space}+$", "")
    ends = starts + _num_characters(parts)
    is_left = parts != ""
    return parts, tf.where(is_left, starts, -1), tf.where(is_left, ends, -1)


def _num_characters(texts: tf.Tensor) -> tf.Tensor:
    return tf.strings.length(texts, unit="UTF8_CHAR")
