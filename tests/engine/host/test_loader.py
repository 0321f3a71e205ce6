"""A data loader's batches by hand."""

import numpy as np

from planner.engine.host import Samples, loader_terms, worker_terms
from planner.engine.plan import by_name
from planner.units import MIB


def test_as_many_batches_are_under_way_as_workers_times_prefetch_and_one_is_in_use():
    terms = by_name(loader_terms(Samples(8, MIB), 1, workers=4, prefetch=2, pinned=False))
    assert terms == {"prefetched batches": 9 * 8 * MIB, "samples being collated": 4 * 8 * MIB}


def test_every_process_has_a_loader_of_its_own():
    one, eight = (loader_terms(Samples(8, MIB), count, workers=4, prefetch=2, pinned=False) for count in (1, 8))
    assert sum(term.bytes for term in eight) == 8 * sum(term.bytes for term in one)


def test_pinned_tensors_take_powers_of_two():
    # three int64 tensors of 1 x 5000 tokens: 40 000 bytes each become 65 536
    terms = by_name(loader_terms(Samples(1, 120_000, 3), 1, workers=1, prefetch=2, pinned=True))
    assert terms["pinned batches"] == 3 * 3 * 65_536
    assert terms["batch being pinned"] == 120_000
    assert Samples(2, 2**20, 1).pinned_bytes() == 2**21


def test_pinned_sizes_are_the_same_one_by_one_and_as_an_array():
    counts = np.array([1, 3, 4, 5, 1000])
    assert list(Samples(counts, 4096).pinned_bytes()) == [Samples(int(n), 4096).pinned_bytes() for n in counts]


def test_a_loader_without_workers_makes_one_batch_at_a_time():
    terms = by_name(loader_terms(Samples(8, MIB), 1, workers=0, prefetch=2, pinned=False))
    assert terms == {"prefetched batches": 8 * MIB, "samples being collated": 8 * MIB}
    assert worker_terms(0, 1, start="fork", copied_bytes=None) == ()


def test_objects_of_the_data_set_are_copied_into_every_worker():
    # pytorch/pytorch#13246
    terms = by_name(worker_terms(4, 8, start="fork", copied_bytes=10**9))
    assert terms["data set's objects in each worker"] == 32 * 10**9


def test_workers_that_start_afresh_load_their_own_libraries():
    forked, spawned = (worker_terms(1, 1, start=start, copied_bytes=None)[0].bytes for start in ("fork", "spawn"))
    assert spawned > 2 * forked
