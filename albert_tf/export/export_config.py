"""The settings of an export, in plain Python.

Each head has more, see `HeadSpec.serving_settings`.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from albert_tf.checkpoints import heads
from albert_tf.checkpoints.exported import LITERT, ONNX
from albert_tf.checks import check_given
from albert_tf.registry import EXPORTS, HEADS
from albert_tf.settings import setting
from albert_tf.tasks import spec as specs
from albert_tf.tasks.spec import HeadSpec, ServingSettings
from albert_tf.text.tokenizer import VocabularyBeside

SAVED_MODEL, IDS_ONLY = "saved_model", "tokens"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportConfig(VocabularyBeside):
    """Settings of one export; every field is a flag of the same name."""

    init_checkpoint: str = setting(
        "",
        "Weights to export: a TF1 checkpoint (prefix or folder), the folder "
        "of a run (its best checkpoint is used) or of its checkpoint, a "
        "Hugging Face folder (safetensors), a KerasHub preset folder, or a "
        ".keras file of one of our models.",
    )
    export_dir: str = setting(
        "",
        "Folder that gets a numbered folder for each version, and a batching "
        "configuration.",
    )
    albert_config_file: str | None = setting(
        None,
        "JSON file with the shape of the model, or the name of a published "
        "model (base_v2, xxlarge_v1, base_zh, bert_base, ...). Default: the "
        "config in the checkpoint's folder.",
    )
    head: str | HeadSpec | None = setting(
        None,
        f"Head of the model: {', '.join(heads.HEADS)}, or of the task "
        f"{', '.join(heads.OF_TASKS)}; or package.module:SPEC, a head of "
        "another package. Default: the head of the checkpoint's task; without "
        "one, pretraining if the checkpoint has its head, or encoder.",
    )
    precision: str = setting(
        "float32",
        "Precision of the stored matrices and of the computation; bfloat16 "
        "halves the size.",
        choices=("float32", "bfloat16"),
    )
    max_seq_length: int | None = setting(
        None,
        "Longest sequence made of raw text, in tokens. Default: as in the "
        "fine-tuning; without one, 512 (384 for squad), but at most the "
        "positions that the model has.",
    )
    depth: tuple[str, ...] = setting(
        (),
        "Numbers of layers to compute, such as 3,6,12, counted from the "
        "first; train with --random_depth for this. Signatures of the largest "
        "number have their usual names; names of the others end with the "
        "number, as in serving_default_3. Default: all layers.",
    )
    export_version: int | None = setting(
        None,
        "Number of the version. Default: one more than the highest number in "
        "the folder.",
        at_least=1,
    )
    model_name: str = setting(
        "albert",
        "Name by which TF Serving knows the model; the requests that warm it "
        "up contain it.",
    )
    format: str = setting(
        SAVED_MODEL,
        "Format of the export: saved_model, which takes raw text; tokens, the "
        "same without the signatures of raw text; or litert or onnx, which "
        "take ids, and texts through load_predictor. onnx is a folder for "
        "transformers.js, in a browser or in Node.",
        choices=(SAVED_MODEL, IDS_ONLY, LITERT, ONNX),
    )
    quantize: str | None = setting(
        None,
        "litert, onnx: int8 stores matrices in int8, a quarter of the size; a "
        "CPU computes several times as fast.",
        choices=("int8",),
    )
    compare_file: str | None = setting(
        None,
        "litert, onnx: file for python -m albert_tf.predict, with a text or "
        "JSON in each line. The command prints how many texts have the same "
        "label as before the export.",
    )
    # Settings of the head, by name.
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        check_given(self, "init_checkpoint", "export_dir")
        super().__post_init__()
        for name in ("quantize", "compare_file"):
            if getattr(self, name) and not self.runtime:
                raise ValueError(
                    f"--{name} needs --format=litert or onnx. Received: "
                    f"format={self.format}."
                )
        if self.runtime and self.precision != "float32":
            raise ValueError(
                f"--format={self.format} is in float32. Received: "
                f"precision={self.precision}."
            )
        if not all(map(str.isdecimal, self.depth)):
            raise ValueError(
                "--depth must be whole numbers, separated by commas. Received: "
                f"depth={','.join(self.depth)}."
            )
        if self.runtime and len(self.depth) > 1:
            raise ValueError(f"--format={self.format} takes one --depth.")
        # Without a named head, the checkpoint has to be read first.
        if self.head_spec:
            self.settings_of(self.head_spec)

    @property
    def runtime(self) -> str | None:
        """The format, if `load_predictor` runs the export."""
        return self.format if self.format in EXPORTS else None

    @property
    def depths(self) -> list[int]:
        """The numbers of layers, the largest first; empty for all layers."""
        return sorted({*map(int, self.depth)}, reverse=True)

    @property
    def head_spec(self) -> HeadSpec | None:
        """The head with the name that the user gives; None for a task."""
        if self.head is None or self.head in heads.OF_TASKS:
            return None
        return specs.head_spec_of(self.head)

    def settings_of(
        self, head_spec: HeadSpec, defaults: Mapping[str, Any] | None = None
    ) -> ServingSettings:
        """Returns the settings for the signatures of a head.

        `defaults` apply where the user gives no value.
        """
        name = head_spec.head.name
        for unknown in {*self.settings} - {*head_spec.serving_settings.names()}:
            heads_with_it = [
                head
                for head in HEADS
                if unknown in specs.head_spec_of(head).serving_settings.names()
            ]
            raise ValueError(
                f"--{unknown} is for --head={' or '.join(heads_with_it)} only. "
                f"Received: head={name}."
            )
        if self.runtime and self.runtime not in head_spec.runtimes:
            heads_with_it = [
                head
                for head in HEADS
                if self.runtime in specs.head_spec_of(head).runtimes
            ]
            raise ValueError(
                f"--format={self.runtime} is for {', '.join(heads_with_it)}. "
                f"Received: head={name}."
            )
        settings = {**self.settings, "max_seq_length": self.max_seq_length}
        return head_spec.serving_settings(
            **{
                "max_seq_length": head_spec.max_seq_length,
                **(defaults or {}),
                **{n: v for n, v in settings.items() if v is not None},
                "runtime": self.runtime,
            }
        )
