"""The signatures of a multiple-choice model: the choice among options.

Data flow: texts -> ids -> [this file] -> probabilities, choice.
Source: `tasks.race.examples`, whose texts and ids are equal.
"""

import tensorflow as tf

from albert_tf.serving import model_inputs, ragged, signature
from albert_tf.serving.graph_tokenizer import CPU, GraphTokenizer
from albert_tf.serving.ragged import Ranges
from albert_tf.serving.signature import Signature, Tensors
from albert_tf.tasks import served_logits
from albert_tf.tasks.lengths import NUM_SPECIAL_TOKENS
from albert_tf.tasks.race import examples
from albert_tf.tasks.race.examples import ChoiceLengths
from albert_tf.tasks.race.spec import ChoiceSettings
from albert_tf.tasks.spec import Exported


def make_signatures(exported: Exported) -> list[Signature]:
    """Returns the signatures of a multiple-choice model.

    Raw text gives `choice` int32 `[B]` and `probabilities` `[B, C]`; ids
    `[B, C, S]` give `logits` and `probabilities`. With `exit_patience`,
    questions may leave the model early, and both have `num_layers` `[B]`.
    """
    settings: ChoiceSettings = exported.settings
    num_options, tokenizer = settings.num_choices or 4, exported.tokenizer
    lengths = settings.choice_lengths()
    score = served_logits.logits_of_ids(exported, num_options)

    def from_text(
        article: tf.Tensor, question: tf.Tensor, options: tf.Tensor
    ) -> Tensors:
        article, question, options = signature.same_batch(
            article=article, question=question, options=options
        )
        with tf.device(CPU):
            ids = _choice_inputs(article, question, options, tokenizer, lengths)
        outputs = score(**ids)
        logits = outputs.pop("logits")
        # `top_k` takes the first of equally likely options.
        _, best = tf.math.top_k(logits, 1)
        return outputs | {
            "choice": best[:, 0],
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
            "article": "Snow fell all night. "
            "In the morning the hills were white.",
            "question": "Snow is _ .",
            "options": ["white"] * num_options,
        },
        inner_shape=(num_options,),
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
    room = lengths.max_seq_length - NUM_SPECIAL_TOKENS - size_b
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
    question = tf.strings.regex_replace(question, examples.BLANK.pattern, "_")
    has_blank = tf.strings.regex_full_match(question, "(?s).*_.*")
    question = tf.where(has_blank, question, tf.strings.join([question, " _"]))
    question = tf.repeat(question, tf.shape(options)[1])
    options = tf.reshape(options, [-1])
    # Each question has one part more than blanks.
    indices, parts, _ = tf.raw_ops.StringSplitV2(input=question, sep="_")
    rows = tf.cast(indices[:, 0], tf.int32)
    is_last = ragged.is_last(rows)
    size, added = tf.strings.length(parts), tf.strings.length(options)
    num_bytes = tf.reduce_sum(size) + tf.reduce_sum(added)
    size += tf.where(is_last, 0, tf.gather(added, rows))
    with tf.control_dependencies([ragged.limit_growth(size, num_bytes)]):
        filling = tf.where(is_last, "", tf.gather(options, rows))
        parts = tf.strings.join([parts, filling])
        return tf.strings.unsorted_segment_join(
            parts, rows, ragged.size(options)
        )
