"""Questions with each of their options in place, in a graph.

Data flow: question, options -> [this file] -> texts of choices.
Floor: export. Core TensorFlow operations only.

Source: `tasks.race.examples.MultipleChoiceExample.choice_texts`, whose texts
these equal.

What a multiple-choice model can be asked: which option is right.

Data flow: article, question, options -> ids -> [this file] -> choice.
Floor: export.

Source: `tasks.race.features`, whose ids these equal.
"""

import tensorflow as tf

from albert_tf.export import flat_rows, pair_packing, signature
from albert_tf.export.classifier_signatures import LogitsOfIds
from albert_tf.export.exported_encoder import ServedWeights
from albert_tf.export.exported_text import ServedText
from albert_tf.export.pair_packing import Ranges
from albert_tf.export.signature import Signature
from albert_tf.export.tokens import TextGraph
from albert_tf.modeling.sequence_models import MultipleChoiceModel
from albert_tf.tasks.race import examples, features
from albert_tf.tasks.race.features import ChoiceLengths

# The characters of a class of characters.
BLANKS = tuple(map(ord, examples.BLANK.pattern[1:-1]))
_BLANK_AT_END = " _"
# Of all choices of a request together, so that memory is enough: an option
# takes the place of every blank, and so texts can grow by multiplication.
MAX_CODE_POINTS = 2**24


def complete(question: tf.Tensor, options: tf.Tensor) -> tf.Tensor:
    """Puts every option into the place of every blank of its question.

    Where there is no blank, the option follows the question.

    Args:
        question: Strings `[B]`.
        options: Strings `[B, C]`.

    Returns:
        Strings `[B x C]`, all options of a question one after the other.
    """
    num_questions, num_options = tf.unstack(tf.shape(options))
    question = _with_blank(question)
    codes, rows, sizes = flat_rows.decode(tf.repeat(question, num_options))
    flat_options = tf.reshape(options, [num_questions * num_options])
    option_codes, _, option_sizes = flat_rows.decode(flat_options)
    option_starts = tf.cumsum(option_sizes, exclusive=True)
    is_blank = _is_blank(codes)
    lengths = tf.where(is_blank, tf.gather(option_sizes, rows), 1)
    with tf.control_dependencies([_check_size(lengths)]):
        sources, within = flat_rows.spread(lengths)
    place = tf.gather(tf.gather(option_starts, rows), sources) + within
    in_option = tf.gather(is_blank, sources)
    place = tf.where(in_option, place, flat_rows.size(option_codes))
    completed = tf.where(
        in_option,
        tf.gather(tf.concat([option_codes, [0]], 0), place),
        tf.gather(codes, sources),
    )
    new_sizes = tf.math.unsorted_segment_sum(
        lengths, rows, flat_rows.size(sizes)
    )
    return flat_rows.encode(completed, new_sizes)


def _with_blank(question: tf.Tensor) -> tf.Tensor:
    codes, rows, sizes = flat_rows.decode(question)
    num_blanks = tf.math.unsorted_segment_sum(
        tf.cast(_is_blank(codes), tf.int32), rows, flat_rows.size(sizes)
    )
    ending = tf.where(num_blanks > 0, "", _BLANK_AT_END)
    return tf.strings.join([question, ending])


def _is_blank(code_points: tf.Tensor) -> tf.Tensor:
    return tf.reduce_any(code_points[:, None] == tf.constant(BLANKS), axis=1)


def _check_size(lengths: tf.Tensor) -> tf.Operation:
    total = tf.reduce_sum(tf.cast(lengths, tf.int64))
    return tf.Assert(
        total <= MAX_CODE_POINTS,
        [
            "Questions with options in the place of their blanks may have at "
            f"most {MAX_CODE_POINTS} characters together. Received:",
            total,
        ],
    )


Tensors = dict[str, tf.Tensor]

_WARMUP_TEXTS = {
    "article": "Snow fell all night. In the morning the hills were white.",
    "question": "Snow is _ .",
}
_WARMUP_OPTION = "white"


def make_signatures(
    model: MultipleChoiceModel,
    weights: ServedWeights,
    text_graph: TextGraph,
    *,
    lengths: ChoiceLengths,
    num_choices: int,
) -> list[Signature]:
    """Traces what a multiple-choice model can be asked.

    Raw text gives `choice` int32 `[B]` and `probabilities` `[B, C]`; ids
    `[B, C, S]` give `logits` and `probabilities`.

    Args:
        model: Called for its structure.
        weights: Its weights.
        text_graph: Text to ids.
        lengths: How long a choice made of raw text may be.
        num_choices: C.
    """
    logits_of = LogitsOfIds(model.scorer, weights)
    text_graph = ServedText(text_graph)

    def from_text(
        article: tf.Tensor, question: tf.Tensor, options: tf.Tensor
    ) -> Tensors:
        article, question, options = signature.same_size(
            article=article, question=question, options=options
        )
        with tf.device("/device:CPU:0"):
            inputs = choice_inputs(
                article, question, options, text_graph, lengths
            )
        logits = tf.reshape(logits_of(**inputs), [-1, num_choices])
        # Of options that are as likely, the first.
        _, places = tf.math.top_k(logits, 1)
        return {
            "choice": places[:, 0],
            "probabilities": tf.nn.softmax(logits),
        }

    def from_ids(**ids: tf.Tensor) -> Tensors:
        rows = {
            name: tf.reshape(values, [-1, tf.shape(values)[2]])
            for name, values in ids.items()
        }
        logits = tf.reshape(logits_of(**rows), [-1, num_choices])
        return {"logits": logits, "probabilities": tf.nn.softmax(logits)}

    texts = {name: signature.strings(None) for name in _WARMUP_TEXTS}
    texts["options"] = signature.strings(None, num_choices)
    ids = {
        name: signature.integers(None, num_choices, None)
        for name in signature.ID_INPUTS
    }
    return [
        Signature(
            name=signature.DEFAULT,
            function=signature.trace(from_text, **texts),
            warmup=signature.text_requests(
                **_WARMUP_TEXTS, options=[_WARMUP_OPTION] * num_choices
            ),
        ),
        Signature(
            name=signature.TOKENS,
            function=signature.trace(from_ids, **ids),
            warmup=signature.id_requests(num_choices),
        ),
    ]


def choice_inputs(
    article: tf.Tensor,
    question: tf.Tensor,
    options: tf.Tensor,
    text_graph: TextGraph,
    lengths: ChoiceLengths,
) -> Tensors:
    """Makes the inputs of a model, int32 `[B x C, S]`.

    Args:
        article: Strings `[B]`.
        question: Strings `[B]`.
        options: Strings `[B, C]`.
        text_graph: Makes the tokens.
        lengths: Of question and option the last tokens are kept, of the
            article the first.
    """
    choices = complete(question, options)
    tokens = text_graph(tf.concat([article, choices], 0))
    starts = flat_rows.starts(tokens.row_ids, tokens.num_rows)
    num_articles, num_options = tf.unstack(tf.shape(options))
    sizes = starts[1:] - starts[:-1]
    size_b = tf.minimum(sizes[num_articles:], lengths.max_qa_length)
    room = lengths.max_seq_length - features.NUM_SPECIAL_TOKENS - size_b
    size_a = tf.repeat(sizes[:num_articles], num_options)
    return pair_packing.pack_ranges(
        tokens.ids,
        Ranges(
            starts=tf.repeat(starts[:num_articles], num_options),
            sizes=tf.minimum(size_a, room),
        ),
        Ranges(starts=starts[num_articles + 1 :] - size_b, sizes=size_b),
        special=text_graph.special_ids,
    )
