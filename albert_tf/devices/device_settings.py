"""Which devices a run computes on, under the names of its flags."""

import dataclasses

from albert_tf.settings import Settings, setting

# Name of the TPU of this machine.
LOCAL_TPU = "local"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceSettings(Settings):
    """The devices of a run; the config of a run has these settings, too."""

    strategy: str = setting(
        "auto",
        "Devices to use: one; mirrored (all GPUs of this machine); "
        "multi_worker (several machines, see --cluster); tpu; or auto.",
        choices=("auto", "one", "mirrored", "multi_worker", "tpu"),
    )
    cluster: str | None = setting(
        None,
        "Where the addresses of the workers come from: tf_config (the variable "
        "TF_CONFIG), or slurm (the variables of srun). Default: tf_config, if "
        "there are workers.",
        choices=("tf_config", "slurm"),
    )
    tpu_name: str | None = setting(None, "Name or address of the TPU.")
    tpu_zone: str | None = setting(None, "Zone of the TPU.")
    gcp_project: str | None = setting(None, "Google Cloud project of the TPU.")
    num_tpu_cores: int | None = setting(
        None, "Number of cores that the TPU must have.", at_least=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        is_many = self.strategy in ("auto", "multi_worker")
        if self.cluster and (self.uses_tpu or not is_many):
            raise ValueError(
                "`cluster` names the workers of --strategy=multi_worker. "
                f"Received: strategy={self.strategy!r}."
            )

    @property
    def uses_tpu(self) -> bool:
        """Whether the run is for a TPU."""
        is_named = self.strategy == "auto" and bool(self.tpu_name)
        return self.strategy == "tpu" or is_named

    @property
    def has_remote_hosts(self) -> bool:
        """Whether other hosts make the batches, which run no Python."""
        return self.uses_tpu and self.tpu_name not in (None, "", LOCAL_TPU)
