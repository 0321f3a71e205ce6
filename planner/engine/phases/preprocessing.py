"""Preprocessing: raw data become training samples in host RAM; nothing is on the GPU."""

from dataclasses import dataclass

from planner.engine.host import HOST, amounts
from planner.engine.ledger import Ledger
from planner.engine.rounding import larger
from planner.engine.storage import data_terms
from planner.engine.term import Factor, Term
from planner.scenario.phases import Preprocessing


@dataclass(frozen=True, slots=True)
class PreprocessingPlan:
    """An empty ledger with the one moment `process`, and the terms of host RAM and storage."""

    ledger: Ledger
    host_terms: tuple[Term, ...]
    storage_terms: tuple[Term, ...]


def plan_preprocessing(phase: Preprocessing) -> PreprocessingPlan:
    """RAM: workers, the batches they prepare, the writers' and the shuffle buffer. Disk: every copy of the data."""
    known = amounts()
    sample_bytes = phase.bytes_per_raw_sample + phase.tokens_per_sample * int(known["arrow_token_bytes"].value)
    sample = Factor("bytes per sample", sample_bytes, "raw and tokenized")
    processes = Factor("workers", larger(phase.workers, 1))
    host = (
        Term("overhead", "main process", (known["runtime"].factor("bytes"),), HOST, known["runtime"].source),
        Term("overhead", "workers", (Factor("workers", phase.workers), known["worker"].factor("bytes")), HOST,
             known["worker"].source),
        Term("overhead", "prefetched batches",
             (processes, Factor("batches", phase.prefetch_factor), Factor("samples", phase.batch_size), sample), HOST,
             known["prefetch"].source),
        Term("overhead", "Arrow writers", (processes, known["writer_rows"].factor("rows"), sample), HOST,
             known["writer_rows"].source),
        Term("overhead", "shuffle buffer",
             (Factor("samples", phase.shuffle_buffer_samples), Factor("bytes per sample", phase.bytes_per_raw_sample)),
             HOST, "datasets IterableDataset.shuffle: the buffer holds that many samples"),
    )  # fmt: skip
    storage = data_terms(phase.samples, phase.bytes_per_raw_sample, phase.tokens_per_sample)
    return PreprocessingPlan(
        Ledger({"process": ("process",)}, ()),
        tuple(item for item in host if item.bytes),
        tuple(item for item in storage if item.bytes),
    )
