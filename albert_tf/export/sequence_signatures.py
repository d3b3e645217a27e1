"""The signatures of a classifier, and of a multiple-choice model.

Data flow: texts -> ids -> [this file] -> probabilities; label or choice.

Source: google-research/albert, run_classifier.py (`serving_input_receiver_fn`)
for the ids; `tasks.race.examples`, whose texts and ids are equal, for the
choices.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from albert_tf.checkpoints import compatibility
from albert_tf.checkpoints.metadata import Metadata
from albert_tf.export import model_inputs, ragged, signature
from albert_tf.export.export_config import LITERT, ExportConfig
from albert_tf.export.exported_encoder import ExportedEncoder, ExportedWeights
from albert_tf.export.graph_tokenizer import CPU, GraphTokenizer
from albert_tf.export.ragged import Ranges
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
        pooled = encoder.pooled(**ids)
        with weights.scope():
            return {"logits": tf.reshape(head(pooled), [-1, num_logits])}

    return classify


def classifier_signatures(
    config: ExportConfig,
    known: Metadata,
    model: ClassifierModel,
    weights: ExportedWeights,
    tokenizer: GraphTokenizer,
) -> list[Signature]:
    """Traces the signatures of a classifier.

    Raw text gives `probabilities` `[B, K]`, their `labels` `[B, K]`, and
    `prediction` `[B]`, a label; ids give `logits` and `probabilities`. If a
    text has any number of labels, `prediction` is `[B, K]`: each label where
    it is predicted, else "". For regression there are no labels, and there is
    `score` `[B]` instead. With `exit_patience`, texts may leave the
    model early, and both signatures have `num_layers` `[B]`.
    """
    head: Any = model.task_head
    labels = compatibility.find_labels(
        known,
        head.output_bias.shape[0],
        where=config.init_checkpoint,
        given=config.labels or None,
    )
    head_flags.check_single_label(
        config.exit_patience,
        has_one_label=bool(labels) and not known.multi_label,
    )
    classify = _classify_with(
        model, weights, exit_patience=config.exit_patience
    )
    names = tf.constant(list(labels), tf.string)
    thresholds = tf.constant(
        config.thresholds or known.thresholds or [_HALF] * len(labels)
    )
    to_probabilities = tf.sigmoid if known.multi_label else tf.nn.softmax

    def from_ids(**ids: tf.Tensor) -> Tensors:
        outputs = classify(**ids)
        if not labels:
            scores = outputs["logits"][:, 0]
            if known.target_scale is not None:
                # As in `ClassificationData`: timestamps need more digits. But
                # LiteRT cannot multiply them.
                dtype = "float32" if config.format == LITERT else "float64"
                scores = tf.cast(scores, dtype) * known.target_scale
                scores += known.target_mean or 0
            return outputs | {"score": scores}
        return outputs | {"probabilities": to_probabilities(outputs["logits"])}

    def from_text(text_a: tf.Tensor, text_b: tf.Tensor) -> Tensors:
        ids = model_inputs.encode_pairs(
            text_a, text_b, tokenizer, max_seq_length=config.seq_length
        )
        outputs = from_ids(**ids)
        logits = outputs.pop("logits")
        if not labels:
            return outputs
        outputs["labels"] = tf.tile(names[None], [tf.shape(logits)[0], 1])
        if known.multi_label:
            is_predicted = outputs["probabilities"] >= thresholds
            return outputs | {"prediction": tf.where(is_predicted, names, "")}
        # `top_k` takes the first of equally likely labels.
        _, places = tf.math.top_k(logits, 1)
        return outputs | {"prediction": tf.gather(names, places[:, 0])}

    return signature.text_and_token_signatures(
        from_text, from_ids, example=model_inputs.EXAMPLE
    )


def multiple_choice_signatures(
    config: ExportConfig,
    known: Metadata,
    model: MultipleChoiceModel,
    weights: ExportedWeights,
    tokenizer: GraphTokenizer,
) -> list[Signature]:
    """Traces the signatures of a multiple-choice model.

    Raw text gives `choice` int32 `[B]` and `probabilities` `[B, C]`; ids
    `[B, C, S]` give `logits` and `probabilities`. With `exit_patience`,
    questions may leave the model early, and both have `num_layers` `[B]`.
    """
    del known
    score = _classify_with(
        model,
        weights,
        exit_patience=config.exit_patience,
        num_choices=config.choices,
    )

    def from_text(
        article: tf.Tensor, question: tf.Tensor, options: tf.Tensor
    ) -> Tensors:
        article, question, options = signature.same_batch(
            article=article, question=question, options=options
        )
        with tf.device(CPU):
            ids = _choice_inputs(
                article, question, options, tokenizer, config.choice_lengths()
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
        example={
            **_WARMUP_TEXTS,
            "options": [_WARMUP_OPTION] * config.choices,
        },
        inner_shape=(config.choices,),
    )


def _choice_inputs(
    article: tf.Tensor,
    question: tf.Tensor,
    options: tf.Tensor,
    tokenizer: GraphTokenizer,
    lengths: ChoiceLengths,
) -> Tensors:
    """Makes the inputs of a model, int32 `[B x C, S]`.

    The end of question and option is kept, and the start of the article.
    """
    tokens = tokenizer(tf.concat([article, complete(question, options)], 0))
    num_articles, num_options = tf.unstack(tf.shape(options))
    articles, choices = tokens.rows[:num_articles], tokens.rows[num_articles:]
    size_b = tf.minimum(choices.sizes, lengths.max_qa_length)
    room = lengths.max_seq_length - examples.NUM_SPECIAL_TOKENS - size_b
    return model_inputs.pack_ranges(
        tokens.ids,
        Ranges(
            starts=tf.repeat(articles.starts, num_options),
            sizes=tf.minimum(tf.repeat(articles.sizes, num_options), room),
        ),
        Ranges(starts=choices.starts + choices.sizes - size_b, sizes=size_b),
        special=tokenizer.special_ids,
    )


def complete(question: tf.Tensor, options: tf.Tensor) -> tf.Tensor:
    """Completes questions `[B]` with options `[B, C]`.

    Each option replaces every blank of its question; where there is no blank,
    it follows the question. Returns strings `[B x C]`, the choices of each
    question one after the other.
    """
    num_questions, num_options = tf.unstack(tf.shape(options))
    question = _with_blank(question)
    codes, splits = ragged.decode(tf.repeat(question, num_options))
    rows = ragged.row_ids(splits)
    option_codes, option_splits = ragged.decode(
        tf.reshape(options, [num_questions * num_options])
    )
    option_sizes = option_splits[1:] - option_splits[:-1]
    is_blank = _is_blank(codes)
    lengths = tf.where(is_blank, tf.gather(option_sizes, rows), 1)
    num_characters = ragged.size(codes) + ragged.size(option_codes)
    sources, within = ragged.expand(
        ragged.limit_growth(lengths, num_characters)
    )
    new_rows = tf.gather(rows, sources)
    place = tf.gather(option_splits, new_rows) + within
    in_option = tf.gather(is_blank, sources)
    place = tf.where(in_option, place, ragged.size(option_codes))
    completed = tf.where(
        in_option,
        ragged.gather_or(option_codes, place, 0),
        tf.gather(codes, sources),
    )
    return ragged.encode(
        completed, ragged.row_splits(new_rows, ragged.size(option_sizes))
    )


def _with_blank(question: tf.Tensor) -> tf.Tensor:
    codes, splits = ragged.decode(question)
    num_blanks = tf.math.unsorted_segment_sum(
        tf.cast(_is_blank(codes), tf.int32),
        ragged.row_ids(splits),
        ragged.size(question),
    )
    ending = tf.where(num_blanks > 0, "", _BLANK_AT_END)
    return tf.strings.join([question, ending])


def _is_blank(code_points: tf.Tensor) -> tf.Tensor:
    return tf.reduce_any(code_points[:, None] == tf.constant(BLANKS), axis=1)
