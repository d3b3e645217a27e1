"""The model card of a run or a conversion: README.md, as model hubs read it.

Data flow: flags and scores of a run, metadata -> [this file] -> README.md.
Jinja2 is imported when a card is written.
"""

import dataclasses
import os
import shlex

from albert_tf import files
from albert_tf.checkpoints import heads, run_checkpoints
from albert_tf.checkpoints.checkpoint import Checkpoint
from albert_tf.checkpoints.conversion_config import ConversionConfig

_MARKER = (
    "<!-- Written by albert_tf. Without this line, it is left as it is. -->"
)
_TEMPLATE = os.path.join(os.path.dirname(__file__), "model_card.md.jinja2")


def write(
    folder: str,
    model: Checkpoint,
    *,
    run: files.Path | None,
    conversion: ConversionConfig | None = None,
    export: object = None,
    kept: object = None,
) -> None:
    """Writes the card of the model in a folder, unless a user's is there.

    The scores are the evaluation in the metadata. `run` is the run, or a
    checkpoint of it, whose flags made the model, if it is known. `export` is
    the `ExportConfig` of a folder for transformers.js, and `kept` says how many
    labels it keeps.
    """
    import jinja2

    path = os.path.join(folder, "README.md")
    if os.path.exists(path) and _MARKER not in files.read_text(path):
        return
    # The folder of a run comes after the folder of its weights.
    run_folder = run_checkpoints.folders_of(run)[-1] if run else ""
    [name, *_] = heads.candidates(model.heads, model.metadata)
    name = str(model.metadata.head) if export else name
    # For a head that is not in the table, and is trained by an unknown program.
    other = dataclasses.replace(heads.ENCODER, pipeline="other", command="")
    flags = run_checkpoints.flags_of(run_folder).splitlines()
    template = jinja2.Template(files.read_text(_TEMPLATE), trim_blocks=True)
    card = template.render(
        marker=_MARKER,
        model=model,
        head=heads.HEADS.get(name, other),
        flags=flags,
        settings=dict(line.partition("=")[::2] for line in flags),
        evaluation=model.metadata.evaluation or {},
        conversion=dataclasses.asdict(conversion) if conversion else {},
        export=export,
        kept=kept,
        quote=shlex.quote,
    )
    files.write_text(path, f"{card}\n")
