"""What a fine-tuning run leaves beside its weights: labels, null threshold.

Data flow: folder of a checkpoint -> [this file] -> signatures.
Floor: export. Plain Python.
"""

import os
from collections.abc import Iterator

from albert_tf import files
from albert_tf.checkpoints import huggingface, run_checkpoints
from albert_tf.tasks.squad import data as squad_data
from albert_tf.training import run_folder

# What transformers calls labels without a name.
_NO_NAME = "LABEL_"


def find_labels(
    path: files.Path, num_labels: int, labels: tuple[str, ...] | None = None
) -> tuple[str, ...]:
    """Returns the names of a classifier's labels, in the order of its logits.

    Args:
        path: Of the checkpoint, a prefix or a folder.
        num_labels: K; 1 for regression.
        labels: The names, if they are given; else they are those of the run
            (`run.json`) or of Hugging Face's config; or else `0`, `1`, ...

    Returns:
        K names; none for regression.

    Raises:
        ValueError: There are more names or fewer than labels; or a file is
            damaged.
    """
    found, where = labels, "--labels"
    for folder in _folders(path):
        for read in (_labels_of_run, _labels_of_huggingface):
            if found is None:
                found, where = read(folder), repr(folder)
    if found is None:
        return tuple(map(str, range(num_labels))) if num_labels > 1 else ()
    wanted = num_labels if num_labels > 1 else 0
    if len(found) != wanted:
        raise ValueError(
            f"The model has {num_labels} outputs, which is "
            f"{f'{wanted} labels' if wanted else 'regression: no labels'}; "
            f"{where} names {len(found)}: {', '.join(found)}. Pass --labels, "
            "a name for each, in the order of the outputs."
        )
    return found


def find_null_threshold(path: files.Path) -> float | None:
    """Returns the null threshold that the run of a checkpoint has tuned.

    Returns:
        None if there is no such run.

    Raises:
        ValueError: Its results are damaged.
    """
    for folder in _folders(path):
        results = files.read_json_object(
            os.path.join(folder, run_folder.RESULTS_FILE), missing_ok=True
        )
        key = squad_data.THRESHOLD_KEY
        # Of several seeds, the best one's weights are kept.
        for name in (f"{key}_best", key):
            if name in results:
                return float(results[name])
    return None


def _folders(path: files.Path) -> Iterator[str]:
    """Yields the folder of a checkpoint, and that of its run."""
    name = os.path.abspath(files.check_local(path))
    folder = name if os.path.isdir(name) else os.path.dirname(name)
    yield folder
    parent, base = os.path.split(folder)
    if base in (
        run_checkpoints.BEST_FOLDER,
        run_checkpoints.CHECKPOINTS_FOLDER,
    ):
        yield parent
    grandparent, base = os.path.split(parent)
    if base == run_checkpoints.CHECKPOINTS_FOLDER:
        yield grandparent


def _labels_of_run(folder: str) -> tuple[str, ...] | None:
    labels = run_folder.read_settings(folder).get("labels")
    return None if labels is None else tuple(labels)


def _labels_of_huggingface(folder: str) -> tuple[str, ...] | None:
    config = files.read_json_object(
        os.path.join(folder, huggingface.CONFIG_FILE), missing_ok=True
    )
    names = config.get("id2label") or {}
    labels = tuple(str(names.get(str(i))) for i in range(len(names)))
    if not labels or all(label.startswith(_NO_NAME) for label in labels):
        return None
    return labels
