"""What happens around the GPUs while a model runs: weights read, batches prepared, checkpoints written."""

from typing import Annotated

from pydantic import Field

from planner.scenario.choices import (
    CheckpointContents,
    HalfDtype,
    LoadingStrategy,
    WeightFiles,
    WeightFormat,
    WorkerStart,
)
from planner.scenario.declaration import Declared, declare

MAX_BYTES = 10**18


class HostPart(Declared):
    """A part that the GPU's memory does not depend on."""

    def __hash__(self) -> int:
        # Remembered plans are looked up by their phase at every edit; that two such parts differ, equality finds out.
        return hash(type(self))


class Loading(HostPart):
    """How weights come from files into the processes of a server."""

    strategy: LoadingStrategy = declare(
        "automatic",
        "Loading",
        "Every process reads the whole model, or one per server does and hands it on, or tensors go to the GPU one by "
        "one. Training from scratch reads nothing. Automatic: one per server where the weights are sharded, else every "
        "process; engines stream.",
    )
    file_format: WeightFiles = declare(
        "safetensors",
        "Files",
        "safetensors are mapped into memory and read tensor by tensor; a pickled file is read whole, shard by shard.",
    )
    file_dtype: HalfDtype | None = declare(
        None,
        "Type in the files",
        "Number format of the weights on disk; one tensor at a time is cast. Automatic: that of the running model.",
        advanced=True,
    )
    shard_bytes: int | None = declare(
        None,
        "Largest file",
        "The checkpoint is split into files of at most this size. Automatic: 5 GB for pickled files, 50 GB otherwise.",
        unit="bytes",
        ge=1,
        le=MAX_BYTES,
        advanced=True,
    )


class DataLoading(HostPart):
    """How batches are prepared for each GPU."""

    workers: int = declare(
        4, "Workers per GPU", "Processes that prepare batches for one GPU. 0 works in its own process.", ge=0, le=1000
    )
    prefetch_factor: int = declare(
        2, "Prefetch", "Batches that each worker prepares ahead.", unit="batches", ge=1, le=10_000
    )
    pin_memory: bool = declare(
        True, "Pinned memory", "Prepared batches are copied into page-locked memory, in blocks of powers of two."
    )
    worker_start: WorkerStart = declare(
        "fork",
        "Workers are",
        "A forked worker shares its parent's libraries; one that starts afresh loads its own.",
        advanced=True,
    )
    bytes_per_sample: int | None = declare(
        None,
        "Prepared sample",
        "Bytes of one sample as the model takes it. Automatic: ids, mask and labels as int64, or an fp32 image.",
        unit="bytes",
        ge=1,
        le=10**13,
        advanced=True,
    )
    copied_bytes: int | None = declare(
        None,
        "Copied objects",
        "Python objects of the data set (lists, dictionaries) in each process. Counting references copies them into "
        "every worker. Automatic: none.",
        unit="bytes",
        ge=1,
        le=MAX_BYTES,
        advanced=True,
    )


class Checkpoints(HostPart):
    """What is written while training goes on, and afterwards."""

    contents: CheckpointContents = declare(
        "resumable", "Checkpoints hold", "To go on later, optimizer states (and fp32 master weights) are needed too."
    )
    kept: int = declare(
        1,
        "Kept",
        "The last so many checkpoints stay. One more is on disk while it is written.",
        unit="checkpoints",
        ge=0,
        le=1_000_000,
    )
    milestones: int = declare(
        0,
        "Kept for good",
        "Checkpoints that are never deleted, beside the last ones.",
        unit="checkpoints",
        ge=0,
        le=1_000_000,
    )
    minutes_between: float | None = declare(
        None, "Written every", "Time from one checkpoint to the next.", unit="minutes", ge=0.01, le=1_000_000.0, step=10
    )
    write_gb_per_s: float | None = declare(
        None,
        "Write speed",
        "What the storage takes from one server, in 10^9 bytes per second.",
        unit="GB/s",
        ge=0.001,
        le=100_000.0,
        step=1,
    )
    sharded: bool | None = declare(
        None,
        "Written in shards",
        "Every server writes its own part at the same time. Automatic: where states are sharded.",
        advanced=True,
    )
    exports: Annotated[tuple[WeightFormat, ...], Field(max_length=32, strict=False)] = declare(
        (),
        "Exported as",
        "Number formats in which the finished model is stored for serving, such as bf16, q4_k_m.",
        advanced=True,
    )
    log_bytes: int | None = declare(
        None,
        "Logs",
        "Metrics, traces and profiles of the whole run. Automatic: not counted.",
        unit="bytes",
        ge=1,
        le=MAX_BYTES,
        advanced=True,
    )
