"""Real data loaders of torch, at rest once all their batches are ready."""

from statistics import median

import pytest

from planner.engine.host import Samples, loader_terms, worker_terms
from planner.engine.plan import by_name

FP32 = 4


@pytest.mark.parametrize(
    ("workers", "prefetch", "samples", "elements"), [(4, 2, 8, 786_432), (2, 4, 8, 786_432), (2, 2, 4, 3_145_728)]
)
def test_batches_and_samples_of_a_loader_take_what_is_planned(probe, workers, prefetch, samples, elements):
    idle = probe("loader", workers, prefetch, samples, 1, 0)
    measured = probe("loader", workers, prefetch, samples, elements, 0)
    batch = Samples(samples, elements * FP32)
    terms = by_name(loader_terms(batch, 1, workers=workers, prefetch=prefetch, pinned=False))
    assert measured["batch"] == batch.batch_bytes
    assert terms["prefetched batches"] == pytest.approx(measured["shared_bytes"], rel=0.1)
    # of each worker, as one that was seen amid its next batch would hold that as well
    collated = min(measured["worker_bytes"]) - median(idle["worker_bytes"])
    assert terms["samples being collated"] / workers == pytest.approx(collated, rel=0.1)


def test_a_worker_copies_its_libraries_objects_when_it_collects_garbage(probe):
    measured = median(probe("loader", 2, 2, 4, 1, 1)["worker_bytes"])
    (term,) = worker_terms(1, 1, start="fork", copied_bytes=None)
    assert term.bytes == pytest.approx(measured, rel=0.1)
