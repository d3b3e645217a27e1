"""Text in, answers out: a trained model with its tokenizer.

Data flow: texts -> examples -> records -> [model] -> outputs -> answers.
Records, outputs and answers are the same as with `--do_predict`.
"""

import copy
import functools
import itertools
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from albert_tf import checks, files, registry
from albert_tf.checkpoints import discovery, load, vocabularies
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.devices import engine
from albert_tf.inference.record_outputs import OutputComputer
from albert_tf.settings import SettingValues
from albert_tf.tasks import example_files
from albert_tf.tasks import inputs as input_forms
from albert_tf.tasks import spec as specs
from albert_tf.tasks.spec import HeadSpec
from albert_tf.tasks.task_data import Examples, ExampleSet, Outputs, TextAnswer
from albert_tf.text.base import Tokenizer
from albert_tf.text.tokenizer import VocabularyBeside

if TYPE_CHECKING:
    from albert_tf.inference.explanation import Explanation
    from albert_tf.inference.text_index import TextIndex

_LOGGER = logging.getLogger(__name__)

# Number of inputs that are in memory together.
_CHUNK_SIZE = 4096


def load_predictor(  # noqa: PLR0913
    path: files.Path | Sequence[files.Path],
    *,
    head: str | HeadSpec | None = None,
    max_seq_length: int | None = None,
    depth: int | None = None,
    dtype: object = None,
    pooling: str | None = None,
    normalize: bool | None = None,
    vocabulary: str | None = None,
    labels: Sequence[str] | None = None,
    do_lower_case: bool | None = None,
) -> "Predictor":
    """Loads a trained model that answers texts.

    Args:
        path: The output directory of a run; a folder of any format with config
            and vocabulary; `hf://owner/name` of the Hugging Face hub; or an
            export of `export_saved_model.py --format=litert` or `onnx`. Or a
            list of these, of any sizes, whose probabilities are averaged.
        head: None for the head that the checkpoint has; a name, such as
            `encoder` for vectors; or, for a head of another package,
            `package.module:SPEC`, or its `HeadSpec`.
        max_seq_length: Longest sequence in tokens. Default: as exported, or as
            fine-tuned unless the head is `encoder`; otherwise 512 (384 for
            questions about a context), or the maximum of a smaller model.
        depth: Number of layers to compute, from the first; None for all. With
            fewer, use a model trained with `--random_depth`.
        dtype: Keras dtype policy; None for the global policy of Keras. It has
            no effect on an export.
        pooling: For vectors: `mean` over the tokens of a text, or `cls`.
            Default: as trained, also by sentence-transformers, or `mean`.
        normalize: Whether vectors are scaled to length 1. Default: as trained.
        vocabulary: A SentencePiece model, or a WordPiece vocabulary, `.txt`;
            None for the vocabulary of the checkpoint.
        labels: Names of a classifier's outputs in their order, empty for a
            number; None for the labels of the checkpoint.
        do_lower_case: Default: the setting of the checkpoint, or true.

    Returns:
        A predictor. Inputs and answers of `predict` depend on the head:

        classifier: a text, or two (`text_a`, `text_b`); `prediction` (a label,
            None for no answer, a number, or a list of labels) and, except for
            numbers, `probabilities` by label.
        span, beam_span: `question` and `context`; `answer`, its position in the
            context (`start`, `end`, in characters; -1 without an answer), and
            `score`, its probability among the best answers.
        multiple_choice: `article`, `question` and `options`; `choice`, the
            index of the best `option`, and the `probabilities` of all.
        token_classifier: a text, or a list of words (`tokens`); `entities`,
            each with `label`, `text`, `start`, `end` and `score`, the mean
            probability of its words' tags; and `tags`, of words.
        pretraining: a text with `[MASK]`s, or two texts; `masks`, for each the
            five likeliest (`token`, `probability`), and, of two texts,
            `in_order`, the probability that they are in this order.
        encoder: a text, or two; `vector`, a list of H numbers.

        `json.dumps` takes all answers. After a training on a table, rows are
        inputs, too: a dict, or a data frame, with the `text_columns` of the
        training.
    """
    path, vocabulary = _absolute(path), vocabulary and _absolute(vocabulary)
    load_again = functools.partial(load_predictor, **locals())
    if not isinstance(path, str | os.PathLike):
        members = [load_again(path=each) for each in path]
        return _together(path, members, load_again)
    beside = VocabularyBeside(
        spm_model_file=vocabulary, do_lower_case=do_lower_case
    )
    checkpoint = vocabularies.with_vocabulary(discovery.open(path), beside)
    # 1. The head and the model.
    model: Any
    if checkpoint.format in registry.ENGINES:
        if depth is not None:
            raise ValueError(
                "An export has the depth it was made with. Export the "
                "checkpoint again, with --depth."
            )
        head_name = str(checkpoint.metadata.head)
        head_spec = specs.head_spec_of(head or head_name)
        if head_spec.head.name != head_name:
            raise ValueError(
                f"{checkpoint.path!r} has no {head_spec.head.name} head. It "
                f"has: {head_name}."
            )
        settings = checkpoint.settings
        model = registry.load(registry.ENGINES[checkpoint.format])(checkpoint)
    else:
        checkpoint = checkpoint.with_depth(depth)
        head_spec = specs.head_spec_of(head or checkpoint.head().name)
        checkpoint.head(head_spec.head)  # raises if it has another
        settings = head_spec.trained_settings(checkpoint)
        arguments = head_spec.model_arguments(settings)
        model, _ = load.make_model(
            checkpoint, head_spec.head, dtype=dtype, **arguments
        )
    if head_spec.head.groups and (assumed := checkpoint.metadata.assumed):
        text = "The thresholds of %s are not known; using %s."
        _LOGGER.warning(text, path, assumed)
    # 2. The settings of records and answers.
    _check_vectors(head_spec, pooling, normalize)
    num_positions = checkpoint.known_config.max_position_embeddings
    if max_seq_length is None:
        longest = settings.get("max_seq_length", head_spec.max_seq_length)
        max_seq_length = min(longest, num_positions)
    checks.check_integer(
        "max_seq_length", max_seq_length, at_least=1, at_most=num_positions
    )
    if isinstance(labels, str | set | frozenset):  # A set has no order.
        raise ValueError(f"`labels` must be a list of texts: {labels!r}.")
    options = {
        "max_seq_length": max_seq_length,
        "pooling": pooling,
        "normalizes": normalize,
        "given_labels": None if labels is None else tuple(labels),
    }
    chosen = {n: value for n, value in options.items() if value is not None}
    predictor = Predictor(head_spec, checkpoint, model, {**settings, **chosen})
    predictor.load_again = load_again
    return predictor


def _absolute(path: Any) -> Any:
    """Returns a path, or a list, that holds in other working directories."""
    if not isinstance(path, str | os.PathLike):
        return [*map(_absolute, path)]
    return path if files.is_remote(path) else os.path.abspath(path)


def _check_vectors(head_spec: HeadSpec, *options: object) -> None:
    """Refuses options of vectors where there are none."""
    if not head_spec.gives_vectors and any(x is not None for x in options):
        raise ValueError(
            "`pooling` and `normalize` are for vectors. The head "
            f'{head_spec.head.name} gives none; pass head="encoder".'
        )


def _together(
    paths: Sequence[files.Path],
    members: Sequence["Predictor"],
    load_again: Callable[[], "Predictor"],
) -> "Predictor":
    """Combines predictors with equal inputs and labels: averages outputs."""
    if not members:
        raise ValueError("Pass one model or several.")
    # Each member's numbers have units of their own.
    units = {"target_mean": None, "target_scale": None}
    settings = []
    for path, member in zip(paths, members, strict=True):
        head_spec = member.head_spec
        if not head_spec.has_mean:
            raise ValueError(f"{path!r}: its answers cannot be averaged.")
        settings.append(
            {**member.data.settings, **units, "head": head_spec.head.name}
        )
        if different := checks.differences(settings[0], settings[-1]):
            raise ValueError(
                f"{path!r} cannot answer with {paths[0]!r}, which has "
                f"{checks.listed(different)}."
            )
    together = copy.copy(members[0])
    together.model = [member.model for member in members]
    data = [member.data for member in members]
    together.data = together.head_spec.mean_data(data)
    together.run_chunks = functools.partial(_mean_chunks, members)
    together.load_again = load_again
    return together


def _mean_chunks(
    members: Sequence["Predictor"], examples: ExampleSet, batch_size: int
) -> Iterator[tuple[Examples, Outputs]]:
    """Yields the examples with mean outputs, as `OutputComputer.run_chunks`."""
    data = [member.data for member in members]
    parts = [member.run_chunks(examples, batch_size) for member in members]
    for chunks in zip(*parts, strict=True):
        outputs = [outputs for _, outputs in chunks]
        yield chunks[0][0], members[0].head_spec.mean_outputs(data, outputs)


class Predictor:
    """Answers texts. Made by `load_predictor`.

    A pickled predictor is the call that loads it, with its path.
    """

    load_again: Callable[[], "Predictor"]

    def __init__(
        self,
        head_spec: HeadSpec,
        checkpoint: Checkpoint,
        model: Any,
        settings: SettingValues,
    ) -> None:
        self.head_spec = head_spec
        self.data: Any = head_spec.answer_data(checkpoint, model, settings)
        self.text_columns = tuple(settings.get("text_columns") or ())
        self.tokenizer: Tokenizer = self.data.tokenizer
        task = head_spec.answer_task(self.data, model)
        self.model = task.model
        padding = engine.padding(self.data.max_seq_length)
        self.run_chunks: Callable[
            [ExampleSet, int], Iterator[tuple[Examples, Outputs]]
        ] = OutputComputer(task, padding).run_chunks
        self._process = os.getpid()

    def __reduce__(self) -> tuple[Callable[[], "Predictor"], tuple[()]]:
        return self.load_again, ()

    def predict(self, inputs: object, *, batch_size: int = 32) -> Any:
        """Answers one input, a list of inputs, or any iterable of them.

        An input is a text, a tuple of two texts, or a dict with the keys that
        `load_predictor` lists, or with the columns of the training. Returns a
        dict for one input, a list of dicts for a list or a data frame (pandas,
        polars, PyArrow), and otherwise (a generator, an array, a
        `tf.data.Dataset`) an iterator, which reads and answers a few thousand
        inputs at a time.
        """
        checks.check_integer("batch_size", batch_size, at_least=1)
        if hasattr(inputs, "numpy"):  # a tensor of texts
            inputs = inputs.numpy()
        if isinstance(inputs, str | bytes | tuple | Mapping):
            [answer] = self._stream([inputs], batch_size)
            return answer
        if hasattr(inputs, "as_numpy_iterator"):  # a `tf.data.Dataset`
            inputs = inputs.as_numpy_iterator()
        # Iterating over a DataFrame would give the names of its columns.
        if hasattr(inputs, "columns"):
            inputs = example_files.rows_of_table(inputs)
        if not isinstance(inputs, Iterable):
            raise ValueError(
                "Pass a text, a dict, or an iterable of them. Received: "
                f"{type(inputs).__name__}."
            )
        answers = self._stream(inputs, batch_size)
        return list(answers) if isinstance(inputs, Sequence) else answers

    def explain(
        self, item: object, *, label: str | None = None, batch_size: int = 32
    ) -> "Explanation":
        """Explains an answer: leaves words out, one at a time.

        The answer is computed once for each word: it is occlusion, which says
        what the answer depends on, not why.

        Args:
            item: One input, as of `predict`: text, pair, question, row.
            label: The label whose probability is explained. Default: the
                predicted one; of several labels, the likeliest.
            batch_size: As of `predict`.

        Returns:
            An `Explanation`: `words`, for `pandas.DataFrame`, each with the
            `change` of the probability, number or score of the answer that is
            due to the word. Notebooks show it in colors.
        """
        explain = registry.load(registry.METHODS["explain"])
        explanation: Explanation = explain(
            self, item, label=label, batch_size=batch_size
        )
        return explanation

    def encode(
        self, texts: Iterable[str], *, batch_size: int = 32
    ) -> np.ndarray:
        """Returns the vectors of N texts, float32 `[N, H]`."""
        if not self.head_spec.gives_vectors:
            raise ValueError('Pass head="encoder" to `load_predictor`.')
        answers = self._stream(input_forms.list_of_texts(texts), batch_size)
        # At once: lists of numbers take eight times the memory.
        vectors = [np.array(each["vector"], np.float32) for each in answers]
        return np.stack(vectors)

    def similarity(
        self, first: str | Sequence[str], second: str | Sequence[str]
    ) -> Any:
        """Returns the cosine similarity of two texts, a float.

        Two lists of N texts give float32 `[N]`, of texts at equal positions.
        """
        if isinstance(first, str) and isinstance(second, str):
            return float(self.similarity([first], [second])[0])
        measures = registry.load(registry.METHODS["similarity"])
        vectors = self.encode(first), self.encode(second)
        sizes = [*map(len, vectors)]
        if sizes[0] != sizes[1]:
            raise ValueError(
                f"Pass lists of equal length. Received: {sizes[0]}, {sizes[1]}."
            )
        cosines: np.ndarray = measures.of_pairs(*vectors)
        return cosines

    def nearest(
        self, queries: str | Sequence[str], texts: Sequence[str], *, k: int = 5
    ) -> list[Any]:
        """Returns the `k` texts most similar to each query, best first.

        Each is a dict with `index`, `text` and `score`, the cosine similarity.
        One query gives a list of dicts; a list of queries, a list of lists.
        """
        return self.index(texts).search(queries, k)

    def index(
        self, texts: Sequence[str], *, batch_size: int = 32
    ) -> "TextIndex":
        """Returns an index of texts, which are encoded once.

        Its `search(queries, k=5)` returns what `nearest` does; `save(path)`
        writes one file, which `load_index` reads.
        """
        make = registry.load(registry.METHODS["index"]).make
        index: TextIndex = make(self, texts, batch_size=batch_size)
        return index

    def load_index(self, path: files.Path) -> "TextIndex":
        """Reads an index; refuses vectors that another model has made."""
        load = registry.load(registry.METHODS["index"]).load
        index: TextIndex = load(self, path)
        return index

    def _stream(
        self, inputs: Iterable[object], batch_size: int
    ) -> Iterator[TextAnswer]:
        if os.getpid() != self._process:
            raise RuntimeError(
                "A predictor does not work in a process that was forked after "
                "it was loaded. Load it in each process: gunicorn without "
                '--preload, or multiprocessing.get_context("spawn").'
            )
        rest = enumerate(inputs)
        while chunk := list(itertools.islice(rest, _CHUNK_SIZE)):
            examples = [
                self.head_spec.example(
                    i, input_forms.texts_of_columns(i, item, self.text_columns)
                )
                for i, item in chunk
            ]
            example_set = self.head_spec.example_set(self.data, examples)
            # Not `self.data`: RACE adapts it to the number of choices.
            data = example_set.data
            # A single chunk: chunks of `record_outputs` are larger.
            for answered, outputs in self.run_chunks(example_set, batch_size):
                yield from data.answers(answered, outputs)
