"""An index of texts by their vectors: search, save, load.

Data flow: texts -> vectors -> [this file] -> the nearest texts of a query.
"""

import dataclasses
import json
import zipfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from albert_tf import checks, files
from albert_tf.metrics import similarity
from albert_tf.tasks import inputs

if TYPE_CHECKING:
    from albert_tf.inference.predictor import Predictor

_QUERIES_AT_A_TIME = 256
# Texts whose vectors are computed again when an index is loaded, the longest:
# all settings change them. And how far these vectors may be from the stored
# ones, relative to their lengths.
_NUM_PROBES = 4
_TOLERANCE = 1e-2


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TextIndex:
    """M texts and their vectors, float32 `[M, H]`, as `Predictor.index` makes.

    `predictor` computes the vectors of queries.
    """

    predictor: "Predictor" = dataclasses.field(repr=False)
    texts: Sequence[str] = dataclasses.field(repr=False)
    vectors: np.ndarray = dataclasses.field(repr=False)

    def __len__(self) -> int:
        return len(self.texts)

    def search(self, queries: str | Sequence[str], k: int = 5) -> list[Any]:
        """Returns the `k` texts most similar to each query, best first.

        Each is a dict with `index`, `text` and `score`, the cosine similarity.
        One query gives a list of dicts; a list of queries, a list of lists.
        """
        if isinstance(queries, str):
            return list(self.search([queries], k)[0])
        checks.check_integer("k", k, at_least=1)
        vectors = self.predictor.encode(queries)
        results = []
        for start in range(0, len(vectors), _QUERIES_AT_A_TIME):
            chunk = vectors[start : start + _QUERIES_AT_A_TIME]
            for scores in similarity.to_all(chunk, self.vectors):
                results.append(self._best(scores, k))
        return results

    def _best(self, scores: np.ndarray, k: int) -> list[dict[str, Any]]:
        """Returns the best `k` texts; of equal ones, the first."""
        if k < len(scores):
            lowest = np.partition(scores, len(scores) - k)[len(scores) - k]
            candidates = np.flatnonzero(scores >= lowest)
        else:
            candidates = np.arange(len(scores))
        order = np.argsort(-scores[candidates], kind="stable")[:k]
        return [
            {"index": i, "text": self.texts[i], "score": float(scores[i])}
            for i in candidates[order].tolist()
        ]

    def save(self, path: files.Path) -> None:
        """Writes the texts and vectors to one file, `.npz` of NumPy."""
        texts = json.dumps([*self.texts]).encode()
        with files.atomic_write(path) as file:
            np.savez(
                file,
                vectors=self.vectors,
                texts=np.frombuffer(texts, np.uint8),
            )


def make(
    predictor: "Predictor", texts: Sequence[str], **options: Any
) -> TextIndex:
    """Computes the vectors of texts."""
    texts = inputs.list_of_texts(texts)
    vectors = predictor.encode(texts, **options)
    return TextIndex(predictor=predictor, texts=texts, vectors=vectors)


def load(predictor: "Predictor", path: files.Path) -> TextIndex:
    """Reads an index, and checks that its vectors are of this model.

    Raises:
        ValueError: The file is damaged, or another model has made the vectors:
            the longest texts get other vectors now.
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            vectors = arrays["vectors"]
            texts = json.loads(arrays["texts"].tobytes())
        if not 0 < len(texts) == len(vectors):
            raise ValueError(f"{len(texts)} texts, {len(vectors)} vectors.")
    except (EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is not an index of texts: {error}") from error
    probes = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
    probes = probes[:_NUM_PROBES]
    now = predictor.encode([texts[i] for i in probes])
    before = vectors[probes]
    if now.shape != before.shape or np.any(
        np.linalg.norm(now - before, axis=1)
        > _TOLERANCE * np.linalg.norm(before, axis=1)
    ):
        example = texts[probes[0]]
        raise ValueError(
            f"{path} has vectors of another model, or of other settings: this "
            f"model has another vector for {example!r:.60}. Load the model "
            "that made the index, or make it again by `predictor.index(texts)`."
        )
    return TextIndex(predictor=predictor, texts=texts, vectors=vectors)
