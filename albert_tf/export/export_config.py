"""The settings of an export, in plain Python.

Those of its head are of the class `HeadSpec.serving_settings`.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from albert_tf import registry
from albert_tf.checkpoints import heads
from albert_tf.checkpoints.exported import LITERT, ONNX
from albert_tf.checks import check_given
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
        "one (base_v2, xxlarge_v1, base_zh, bert_base, ...). Default: the "
        "config beside the checkpoint.",
    )
    head: str | HeadSpec | None = setting(
        None,
        "What the model computes. Default: the task that the checkpoint has a "
        "head for, or else pretraining, or else encoder.",
        choices=(*heads.HEADS, *heads.OF_TASKS),
    )
    precision: str = setting(
        "float32",
        "Precision of the stored matrices and of the computation; bfloat16 "
        "halves the size.",
        choices=("float32", "bfloat16"),
    )
    max_seq_length: int | None = setting(
        None,
        "Longest sequence made of raw text, in tokens. Default: that of the "
        "fine-tuning, or else 512 (384 for squad), or the longest that the "
        "model takes if that is less.",
    )
    depth: tuple[str, ...] = setting(
        (),
        "Numbers of layers to compute, the first ones, such as 3,6,12; good "
        "after a training with --random_depth. The signatures of the largest "
        "have their usual names, the others' end with the number, as in "
        "serving_default_3. Default: all layers.",
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
        "What to write: saved_model, which takes raw text; tokens, which is "
        "the same without the signatures of raw text; or litert or onnx, which "
        "take ids, or texts by load_predictor. onnx is a folder for "
        "transformers.js, in a browser or in Node.",
        choices=(SAVED_MODEL, IDS_ONLY, LITERT, ONNX),
    )
    quantize: str | None = setting(
        None,
        "litert, onnx: int8 for matrices in int8, a quarter of the size; a CPU "
        "computes several times as fast.",
        choices=("int8",),
    )
    compare_file: str | None = setting(
        None,
        "litert, onnx: file with a text a line, or JSON, as python -m "
        "albert_tf.predict takes; it is said how many of their labels are "
        "kept.",
    )
    # Settings that only some heads have, by name.
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
        # Otherwise, they are checked once the checkpoint is read.
        if self.spec:
            self.settings_of(self.spec)

    @property
    def runtime(self) -> str | None:
        """The format, if `load_predictor` runs the export."""
        return self.format if self.format in (LITERT, ONNX) else None

    @property
    def depths(self) -> list[int]:
        """The numbers of layers, the largest first; empty for all layers."""
        return sorted({*map(int, self.depth)}, reverse=True)

    @property
    def spec(self) -> HeadSpec | None:
        """The head that the user names; a task may have several."""
        if self.head is None or self.head in heads.OF_TASKS:
            return None
        return specs.head_spec_of(self.head)

    def settings_of(
        self, spec: HeadSpec, defaults: Mapping[str, Any] | None = None
    ) -> ServingSettings:
        """Returns the settings of a head, for signatures.

        `defaults` are used where the user gives none.
        """
        name = spec.head.name
        for unknown in {*self.settings} - {*spec.serving_settings.names()}:
            words = [
                word
                for word in registry.HEADS
                if unknown in specs.head_spec_of(word).serving_settings.names()
            ]
            raise ValueError(
                f"--{unknown} is for --head={' or '.join(words)} only. "
                f"Received: head={name}."
            )
        if self.runtime and self.runtime not in spec.runtimes:
            words = [
                word
                for word in registry.HEADS
                if self.runtime in specs.head_spec_of(word).runtimes
            ]
            raise ValueError(
                f"--format={self.runtime} is for {', '.join(words)}. Received: "
                f"head={name}."
            )
        given = {**self.settings, "max_seq_length": self.max_seq_length}
        given = {n: value for n, value in given.items() if value is not None}
        return spec.serving_settings(
            **{
                "max_seq_length": spec.max_seq_length,
                **(defaults or {}),
                **given,
                "runtime": self.runtime,
            }
        )
