"""Preprocessing: what kind of data becomes training samples, and how it is worked through."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import ModelWrapValidatorHandler, model_validator

from planner.scenario.choices import DataKind, GpuPreprocessing, SampleType, WorkerStart
from planner.scenario.datasets import DataSet, dataset_fields
from planner.scenario.declaration import Declared, declare

MAX_SAMPLES = 10**15
MAX_SAMPLE_BYTES = 10**13
MAX_BYTES = 10**18
MAX_PIXELS = 100_000
MAX_BATCH = 1_000_000


class Preprocessing(Declared):
    """Raw data become training samples: host RAM and disk, and GPU memory only where a GPU prepares them."""

    form_order: ClassVar[tuple[str, ...]] = (
        *("dataset", "kind", "samples", "bytes_per_raw_sample", "tokens_per_sample", "padded_tokens"),
        *("image_height", "image_width", "output_height", "output_width", "frames_per_sample"),
        *("seconds_per_sample", "sampling_rate", "columns", "workers", "prefetch_factor", "batch_size"),
        *("shuffle_buffer_samples", "replicas", "gpu_preprocessing"),
    )

    dataset: DataSet | None = declare(
        None, "Typical data set", "Fills in kind, number and size of the samples. Automatic: data of your own."
    )
    kind: DataKind = declare("text", "Kind of data", "What a sample is; it decides what is held while it is prepared.")
    samples: int = declare(
        1_000_000, "Samples", "Documents, images or rows in the data set.", unit="samples", ge=1, le=MAX_SAMPLES
    )
    bytes_per_raw_sample: int = declare(
        6000,
        "Raw size per sample",
        "Average size of one raw sample on disk: a page of text is about 6 kB, a photograph about 150 kB.",
        unit="bytes",
        ge=1,
        le=MAX_SAMPLE_BYTES,
        step=1000,
    )
    tokens_per_sample: int = declare(
        1500, "Tokens per sample", "Average length after tokenization.", unit="tokens", ge=1, le=10**9, step=100
    )
    padded_tokens: int | None = declare(
        None,
        "Padded to",
        "Every tokenized sample is stored at this length. Automatic: at its own.",
        unit="tokens",
        ge=1,
        le=10**9,
        step=128,
    )
    stored_bytes_per_token: int = declare(
        5,
        "Stored per token",
        "All columns of a token together: int32 ids and an int8 mask take 5, three int64 columns 24.",
        unit="bytes",
        ge=1,
        le=1000,
        advanced=True,
    )
    image_height: int = declare(
        480, "Height", "Of an image or frame as it is decoded.", unit="pixels", ge=1, le=MAX_PIXELS
    )
    image_width: int = declare(
        640, "Width", "Of an image or frame as it is decoded.", unit="pixels", ge=1, le=MAX_PIXELS
    )
    output_height: int = declare(
        224, "Resized height", "After resizing and cropping.", unit="pixels", ge=1, le=MAX_PIXELS
    )
    output_width: int = declare(
        224, "Resized width", "After resizing and cropping.", unit="pixels", ge=1, le=MAX_PIXELS
    )
    frames_per_sample: int = declare(16, "Frames", "Frames of each video clip.", unit="frames", ge=1, le=10**6)
    seconds_per_sample: float = declare(
        12.0, "Length", "Average length of a recording.", unit="seconds", ge=0.01, le=10**6, step=1
    )
    sampling_rate: int = declare(
        16_000, "Sampling rate", "Values per second after resampling.", unit="Hz", ge=1, le=10**7, step=1000
    )
    mel_bins: int | None = declare(
        None,
        "Mel bins",
        "Recordings become spectra with this many bins, one every 10 ms. Automatic: the waveform stays.",
        unit="bins",
        ge=1,
        le=100_000,
        advanced=True,
    )
    columns: int = declare(40, "Columns", "Features of each row.", unit="columns", ge=1, le=10**9)
    sample_type: SampleType = declare(
        "fp32", "Prepared type", "Number format of prepared pixels, waveforms and features.", advanced=True
    )
    workers: int = declare(
        8, "Workers", "Processes that read and prepare samples. 0 works in the main process.", ge=0, le=10_000
    )
    prefetch_factor: int = declare(
        2, "Prefetch", "Batches that each worker prepares ahead.", unit="batches", ge=1, le=10_000
    )
    batch_size: int = declare(
        32, "Samples per batch", "Samples that a worker hands over together.", unit="samples", ge=1, le=MAX_BATCH
    )
    shuffle_buffer_samples: int = declare(
        10_000, "Shuffle buffer", "Samples kept in memory to shuffle a stream.", unit="samples", ge=0, le=MAX_SAMPLES
    )
    map_batch_samples: int = declare(
        1000,
        "Samples per step",
        "Samples that a worker tokenizes, or buffers before it writes them, at a time.",
        unit="samples",
        ge=1,
        le=MAX_BATCH,
        advanced=True,
    )
    python_lists: bool = declare(
        False,
        "Rows as Python lists",
        "Prepared values pass through Python lists, where each takes 40 bytes whatever its type. Tokens always do.",
        advanced=True,
    )
    memory_mapped: bool = declare(
        True,
        "Memory-mapped",
        "Stored samples are mapped from disk, so that the kernel keeps only what is in use; off loads all of them.",
        advanced=True,
    )
    worker_start: WorkerStart = declare(
        "fork",
        "Workers are",
        "A forked worker shares its parent's libraries; one that starts afresh loads its own.",
        advanced=True,
    )
    copied_bytes: int | None = declare(
        None,
        "Copied objects",
        "Python objects of the data set (lists, dictionaries). Counting references copies them into every worker. "
        "Automatic: none.",
        unit="bytes",
        ge=1,
        le=MAX_BYTES,
        advanced=True,
    )
    pin_memory: bool = declare(
        False,
        "Pinned memory",
        "Prepared batches are copied into page-locked memory, in blocks of powers of two.",
        advanced=True,
    )
    keeps_intermediate: bool | None = declare(
        None,
        "Keeps a converted copy",
        "The raw data are stored once more in the loader's own format. Automatic: for text and tables.",
        advanced=True,
    )
    keeps_prepared: bool | None = declare(
        None,
        "Stores prepared samples",
        "Prepared samples are written to disk. Automatic: for text and tables; images, video and audio are prepared "
        "anew in every epoch.",
        advanced=True,
    )
    packs: bool = declare(
        True, "Packs sequences", "Tokens are also stored end to end, in sequences of full length.", advanced=True
    )
    replicas: int = declare(
        1, "Copies of the data", "How often everything is stored, for speed or safety.", unit="copies", ge=1, le=1000
    )
    gpu_preprocessing: GpuPreprocessing = declare(
        "none", "Prepared on", "A GPU can decode and augment images and video (DALI), or hold data frames (cuDF)."
    )
    gpu_queue_depth: int = declare(
        2, "Batches on the GPU", "Prepared batches that wait on the GPU.", unit="batches", ge=1, le=100, advanced=True
    )

    @model_validator(mode="wrap")
    @classmethod
    def _filled_in(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """A typical data set gives what is not stated beside it; a file keeps what was stated."""
        if not isinstance(value, Mapping) or not isinstance(value.get("dataset"), str):
            return handler(value)
        filled = handler({**dataset_fields(value["dataset"]), **value})
        object.__setattr__(filled, "__pydantic_fields_set__", set(value))
        return filled

    @property
    def kept_intermediate(self) -> bool:
        return self.kind in ("text", "tabular") if self.keeps_intermediate is None else self.keeps_intermediate

    @property
    def kept_prepared(self) -> bool:
        return self.kind in ("text", "tabular") if self.keeps_prepared is None else self.keeps_prepared
