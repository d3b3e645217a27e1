"""The signatures of a classifier, and of a multiple-choice model.

Data flow: texts -> ids -> [this file] -> probabilities; label or choice.

Source: google-research/albert, run_classifier.py (`serving_input_receiver_fn`)
for the ids; `tasks.race.examples.MultipleChoiceExample.choice_texts` and
`tasks.race.examples`, whose texts and ids are equal, for the choices.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.checkpoints.metadata import Metadata
from albert_tf.export import exported_text, ragged, signature
from albert_tf.export.exported_encoder import ExportedEncoder, ExportedWeights
from albert_tf.export.exported_text import Ranges, TextGraph
from albert_tf.export.signature import Signature, Tensors
from albert_tf.modeling.sequence_models import (
    ClassifierModel,
    MultipleChoiceModel,
)
from albert_tf.tasks import head_flags
from albert_tf.tasks.race import examples
from albert_tf.tasks.race.examples import ChoiceLengths

# Code points that mark a blank.
BLANKS = tuple(map(ord, examples.BLANK.pattern[1:-1]))
_BLANK_AT_END = " _"
_HALF = 0.5
# Limit on all choices of a request together. An option replaces every blank of
# its question, so that a short request could otherwise exhaust the memory.
MAX_CODE_POINTS = 2**24
_WARMUP_TEXTS = {
    "article": "Snow fell all night. In the morning the hills were white.",
    "question": "Snow is _ .",
}
_WARMUP_OPTION = "white"


def _classify_with(
    model: ClassifierModel,
    weights: ExportedWeights,
    *,
    exit_patience: int,
    num_choices: int = 1,
) -> Callable[..., Tensors]:
    """Returns a function from ids `[B x C, S]` to `logits`, `[B, C x K]`.

    With early exit it also returns `num_layers`, int32 `[B]`.
    """
    encoder = ExportedEncoder(model.albert, weights)
    head: Any = model.task_head
    if exit_patience:
        return encoder.early_exit(
            head, patience=exit_patience, num_choices=num_choices
        )
    num_logits = num_choices * head.output_bias.shape[0]

    def classify(**ids: tf.Tensor) -> Tensors:
        _, pooled = encoder(**ids)
        with weights.scope():
            return {"logits": tf.reshape(head(pooled), [-1, num_logits])}

    return classify


def classifier_signatures(
    model: ClassifierModel,
    weights: ExportedWeights,
    text_graph: TextGraph,
    *,
    labels: Sequence[str],
    known: Metadata,
    max_seq_length: int,
    exit_patience: int = 0,
) -> list[Signature]:
    """Traces the signatures of a classifier.

    Raw text gives `probabilities` `[B, K]` and `prediction` `[B]`, a label;
    ids give `logits` and `probabilities`. If a text has any number of labels,
    `prediction` is `[B, K]`: each label where it is predicted, else "". For
    regression there are no labels, and there is `score` `[B]` instead of
    probabilities and prediction. `known` is what is known of the checkpoint:
    the thresholds of its labels, the scale of its scores. At most
    `max_seq_length` tokens are made of raw text. With `exit_patience`, texts
    may leave the model early, and both signatures have `num_layers` `[B]`.

    Raises:
        ValueError: With `exit_patience`, a text has a number or several labels.
    """
    head_flags.check_single_label(
        exit_patience, has_one_label=bool(labels) and not known.multi_label
    )
    classify = _classify_with(model, weights, exit_patience=exit_patience)
    names = tf.constant(list(labels), tf.string)
    thresholds = tf.constant(known.thresholds or [_HALF] * len(labels))
    to_probabilities = tf.sigmoid if known.multi_label else tf.nn.softmax

    def from_ids(**ids: tf.Tensor) -> Tensors:
        outputs = classify(**ids)
        if not labels:
            scores = outputs["logits"][:, 0]
            if known.target_scale is not None:
                scores = scores * known.target_scale + (known.target_mean or 0)
            return outputs | {"score": scores}
        return outputs | {"probabilities": to_probabilities(outputs["logits"])}

    def from_text(text_a: tf.Tensor, text_b: tf.Tensor) -> Tensors:
        ids = exported_text.encode_pairs(
            text_a, text_b, text_graph, max_seq_length=max_seq_length
        )
        outputs = from_ids(**ids)
        logits = outputs.pop("logits")
        if not labels:
            return outputs
        if known.multi_label:
            is_predicted = outputs["probabilities"] >= thresholds
            return outputs | {"prediction": tf.where(is_predicted, names, "")}
        # `top_k` takes the first of equally likely labels.
        _, places = tf.math.top_k(logits, 1)
        return outputs | {"prediction": tf.gather(names, places[:, 0])}

    return signature.text_and_token_signatures(
        from_text, from_ids, example=exported_text.EXAMPLE
    )


def multiple_choice_signatures(
    model: MultipleChoiceModel,
    weights: ExportedWeights,
    text_graph: TextGraph,
    *,
    lengths: ChoiceLengths,
    num_choices: int,
    exit_patience: int = 0,
) -> list[Signature]:
    """Traces the signatures of a multiple-choice model.

    Raw text gives `choice` int32 `[B]` and `probabilities` `[B, C]`; ids
    `[B, C, S]` give `logits` and `probabilities`. With `exit_patience`,
    questions may leave the model early, and both have `num_layers` `[B]`.
    """
    score = _classify_with(
        model.scorer,
        weights,
        exit_patience=exit_patience,
        num_choices=num_choices,
    )

    def from_text(
        article: tf.Tensor, question: tf.Tensor, options: tf.Tensor
    ) -> Tensors:
        article, question, options = signature.same_batch(
            article=article, question=question, options=options
        )
        with tf.device("/device:CPU:0"):
            ids = _choice_inputs(
                article, question, options, text_graph, lengths
            )
        outputs = score(**ids)
        logits = outputs.pop("logits")
        # `top_k` takes the first of equally likely options.
        _, places = tf.math.top_k(logits, 1)
        return outputs | {
            "choice": places[:, 0],
            "probabilities": tf.nn.softmax(logits),
        }

    def from_ids(**ids: tf.Tensor) -> Tensors:
        rows = {
            name: tf.reshape(values, [-1, tf.shape(values)[2]])
            for name, values in ids.items()
        }
        outputs = score(**rows)
        return outputs | {"probabilities": tf.nn.softmax(outputs["logits"])}

    return signature.text_and_token_signatures(
        from_text,
        from_ids,
        example={**_WARMUP_TEXTS, "options": [_WARMUP_OPTION] * num_choices},
        inner_shape=(num_choices,),
    )


def _choice_inputs(
    article: tf.Tensor,
    question: tf.Tensor,
    options: tf.Tensor,
    text_graph: TextGraph,
    lengths: ChoiceLengths,
) -> Tensors:
    """Makes the inputs of a model, int32 `[B x C, S]`.

    The end of question and option is kept, and the start of the article.
    """
    choices = complete(question, options)
    limits = tf.concat(
        [
            tf.fill(tf.shape(article), lengths.max_seq_length),
            tf.fill(tf.shape(choices), exported_text.NO_LIMIT),
        ],
        0,
    )
    tokens = text_graph(tf.concat([article, choices], 0), limits)
    starts, sizes = tokens.rows()
    num_articles, num_options = tf.unstack(tf.shape(options))
    choice_sizes = sizes[num_articles:]
    size_b = tf.minimum(choice_sizes, lengths.max_qa_length)
    room = lengths.max_seq_length - examples.NUM_SPECIAL_TOKENS - size_b
    size_a = tf.repeat(sizes[:num_articles], num_options)
    return exported_text.pack_ranges(
        tokens.ids,
        Ranges(
            starts=tf.repeat(starts[:num_articles], num_options),
            sizes=tf.minimum(size_a, room),
        ),
        Ranges(
            starts=starts[num_articles:] + choice_sizes - size_b, sizes=size_b
        ),
        special=text_graph.special_ids,
    )


def complete(question: tf.Tensor, options: tf.Tensor) -> tf.Tensor:
    """Completes questions `[B]` with options `[B, C]`.

    Each option replaces every blank of its question; where there is no blank,
    it follows the question. Returns strings `[B x C]`, the choices of each
    question one after the other.
    """
    num_questions, num_options = tf.unstack(tf.shape(options))
    question = _with_blank(question)
    codes, rows, sizes = ragged.decode(tf.repeat(question, num_options))
    flat_options = tf.reshape(options, [num_questions * num_options])
    option_codes, _, option_sizes = ragged.decode(flat_options)
    option_starts = tf.cumsum(option_sizes, exclusive=True)
    is_blank = _is_blank(codes)
    lengths = tf.where(is_blank, tf.gather(option_sizes, rows), 1)
    total = tf.reduce_sum(tf.cast(lengths, tf.int64))
    check = tf.Assert(
        total <= MAX_CODE_POINTS,
        [
            "Questions whose blanks are replaced by the options may have at "
            f"most {MAX_CODE_POINTS} characters together. Received:",
            total,
        ],
    )
    with tf.control_dependencies([check]):
        sources, within = ragged.expand(lengths)
    place = tf.gather(tf.gather(option_starts, rows), sources) + within
    in_option = tf.gather(is_blank, sources)
    place = tf.where(in_option, place, ragged.size(option_codes))
    completed = tf.where(
        in_option,
        ragged.gather_or(option_codes, place, 0),
        tf.gather(codes, sources),
    )
    new_sizes = tf.math.unsorted_segment_sum(lengths, rows, ragged.size(sizes))
    return ragged.encode(completed, new_sizes)


def _with_blank(question: tf.Tensor) -> tf.Tensor:
    codes, rows, sizes = ragged.decode(question)
    num_blanks = tf.math.unsorted_segment_sum(
        tf.cast(_is_blank(codes), tf.int32), rows, ragged.size(sizes)
    )
    ending = tf.where(num_blanks > 0, "", _BLANK_AT_END)
    return tf.strings.join([question, ending])


def _is_blank(code_points: tf.Tensor) -> tf.Tensor:
    return tf.reduce_any(code_points[:, None] == tf.constant(BLANKS), axis=1)
