"""Preprocessing: raw data become training samples in host RAM, and on a GPU only where one prepares them."""

from dataclasses import dataclass

from planner.engine.host import HOST, Samples, amounts, loader_terms, worker_terms
from planner.engine.ledger import Ledger
from planner.engine.phases.samples import COLUMN_BYTES, Sample, sample_of
from planner.engine.rounding import larger
from planner.engine.storage import data_terms
from planner.engine.term import Factor, Term
from planner.scenario.preprocessing import Preprocessing

ALIVE = ("process",)
DALI_SOURCE = (
    "NVIDIA DALI, Performance Tuning: each stage of a pipeline has its buffer, and finished batches wait in a queue of "
    "prefetch_queue_depth, 2 by default"
)
DECODED_SOURCE = "torch/utils/data/_utils/fetch.py: a worker makes the samples of a batch one after the other"
SHUFFLE_SOURCE = "datasets IterableDataset.shuffle: the buffer holds that many samples"
STEP_SOURCE = "datasets Dataset.map, batched: so many samples are read, tokenized and converted at a time"
BEFORE_SOURCE = (
    "datasets/arrow_dataset.py _map_single: the loop's variable holds the step before until the next is made; measured "
    "on a real map"
)
WRITER_SOURCE = "datasets/arrow_writer.py: DEFAULT_MAX_BATCH_SIZE rows are buffered per process before they are written"
WHOLE_SOURCE = "datasets keep_in_memory: everything that is stored last is held as well"


@dataclass(frozen=True, slots=True)
class PreprocessingPlan:
    """A ledger with the one moment `process`, empty without a GPU, and the terms of host RAM and storage."""

    ledger: Ledger
    host_terms: tuple[Term, ...]
    storage_terms: tuple[Term, ...]


def plan_preprocessing(phase: Preprocessing) -> PreprocessingPlan:
    """RAM: workers, what they work on, batches, shuffle buffer. Disk: every copy of the data. VRAM: where it helps."""
    sample = sample_of(phase)
    storage = tuple(item for item in _stored(phase, sample) if item.bytes)
    host = (*_held(phase, sample), *_whole_data(phase, storage))
    return PreprocessingPlan(
        Ledger({"process": ALIVE}, _on_gpu(phase, sample)), tuple(item for item in host if item.bytes), storage
    )


def _held(phase: Preprocessing, sample: Sample) -> tuple[Term, ...]:
    known = amounts()
    raw = Factor("bytes per sample", sample.raw_bytes, "as on disk")
    hands = Factor("workers", larger(phase.workers, 1))
    batches = Samples(
        phase.batch_size, sample.raw_bytes if phase.gpu_preprocessing == "decode" else sample.prepared_bytes
    )
    decodes_here = phase.gpu_preprocessing == "none"
    decoded = sample.decoded_bytes if decodes_here else 0
    return (
        Term("overhead", "main process", (known["runtime"].factor("bytes"),), HOST, known["runtime"].source),
        *worker_terms(phase.workers, 1, start=phase.worker_start, copied_bytes=phase.copied_bytes),
        *loader_terms(
            batches, 1, workers=phase.workers, prefetch=phase.prefetch_factor, pinned=phase.pin_memory
        ),
        Term("data", "sample being decoded", (hands, Factor("bytes", decoded)), HOST,
             DECODED_SOURCE),
        *(_tokenizing(phase, sample, hands) if phase.kind == "text" else _writing(phase, sample, hands)),
        Term("data", "shuffle buffer", (Factor("samples", phase.shuffle_buffer_samples), raw), HOST,
             SHUFFLE_SOURCE),
    )  # fmt: skip


def _tokenizing(phase: Preprocessing, sample: Sample, hands: Factor) -> tuple[Term, ...]:
    """What a worker holds at the end of one step of `map`: texts, encodings, Python lists and an Arrow table."""
    if not phase.kept_prepared:
        return ()
    known = amounts()
    rows, tokens = Factor("samples", phase.map_batch_samples), Factor("tokens", sample.values)
    lists = known["list_token_bytes"]
    steps_before = int(phase.samples > phase.map_batch_samples * larger(phase.workers, 1))
    columns = Factor("bytes", phase.stored_bytes_per_token)
    return (
        Term("data", "texts being tokenized", (hands, rows, Factor("bytes per sample", sample.raw_bytes)), HOST,
             STEP_SOURCE),
        Term("data", "tokenizer's encodings", (hands, rows, tokens, known["encoding_bytes"].factor("bytes")), HOST,
             known["encoding_bytes"].source),
        Term("data", "tokens in Python lists", (hands, rows, tokens, lists.factor("bytes")), HOST, lists.source),
        Term("data", "tokens of the step before",
             (hands, Factor("steps", steps_before), rows, tokens, lists.factor("bytes")), HOST, BEFORE_SOURCE),
        Term("data", "Arrow writers", (hands, rows, tokens, columns), HOST, WRITER_SOURCE),
    )  # fmt: skip


def _writing(phase: Preprocessing, sample: Sample, hands: Factor) -> tuple[Term, ...]:
    """Rows that wait to be written, as arrays or as the Python lists of a careless `map`."""
    if not phase.kept_prepared:
        return ()
    rows = Factor("samples", phase.map_batch_samples)
    if not phase.python_lists:
        return (Term("data", "Arrow writers", (hands, rows, sample.factor()), HOST, WRITER_SOURCE),)
    lists = amounts()["list_value_bytes"]
    values = (hands, rows, Factor("values", sample.values), lists.factor("bytes"))
    return (Term("data", "rows in Python lists", values, HOST, lists.source),)


def _stored(phase: Preprocessing, sample: Sample) -> tuple[Term, ...]:
    text, kept = phase.kind == "text", phase.kept_prepared
    return data_terms(
        phase.samples,
        sample.raw_bytes,
        converted=phase.kept_intermediate,
        replicas=phase.replicas,
        tokens=sample.values if text and kept else 0,
        token_bytes=phase.stored_bytes_per_token,
        packed_tokens=phase.tokens_per_sample if text and kept and phase.packs else 0,
        prepared_bytes=sample.prepared_bytes if kept and not text else 0,
    )


def _whole_data(phase: Preprocessing, storage: tuple[Term, ...]) -> tuple[Term, ...]:
    """What is stored last, where it is not mapped from disk."""
    if phase.memory_mapped or not storage:
        return ()
    size = int(storage[-1].bytes) // phase.replicas
    return (Term("data", "data set in memory", (Factor("bytes", size, storage[-1].name),), HOST, WHOLE_SOURCE),)


def _on_gpu(phase: Preprocessing, sample: Sample) -> tuple[Term, ...]:
    count = Factor("samples", phase.batch_size)
    if phase.gpu_preprocessing == "decode":
        queue = Factor("batches", phase.gpu_queue_depth)
        return (
            Term("activations", "encoded batch", (count, Factor("bytes per sample", sample.raw_bytes)), ALIVE,
                 DALI_SOURCE),
            Term("temporaries", "decoded batch", (count, Factor("bytes per sample", sample.decoded_bytes)), ALIVE,
                 DALI_SOURCE),
            Term("activations", "prepared batches", (queue, count, sample.factor()), ALIVE, DALI_SOURCE),
        )  # fmt: skip
    if phase.gpu_preprocessing == "dataframe":
        copies = amounts()["dataframe_copies"]
        frame = (count, Factor("columns", phase.columns), Factor("bytes", COLUMN_BYTES))
        return (
            Term("activations", "data frame", frame, ALIVE, copies.source),
            Term("temporaries", "results and intermediate columns", (copies.factor("copies"), *frame), ALIVE,
                 copies.source),
        )  # fmt: skip
    return ()
