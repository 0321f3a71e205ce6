"""Real checkpoint files of torch and safetensors, and what it takes to read them."""

import pytest

from planner.engine.host import CACHED, Checkpoint, loading_terms
from planner.engine.optimizer import ParameterTensor
from planner.engine.storage import CheckpointPlan, checkpoint_terms

BF16 = 2


@pytest.mark.parametrize("optimizer", ["adamw", "sgd_momentum"])
def test_a_checkpoint_takes_the_disk_that_is_planned(probe, optimizer):
    measured = probe("checkpoint")
    tensors = tuple(ParameterTensor(tuple(shape), 1, BF16) for shape in measured["shapes"])
    saved = checkpoint_terms(tensors, optimizer, "foreach", CheckpointPlan(kept=0))
    assert sum(int(term.bytes) for term in saved) == pytest.approx(measured[optimizer], rel=0.01)
    weights = checkpoint_terms(tensors, optimizer, "foreach", CheckpointPlan(resumable=False, kept=0))
    assert sum(int(term.bytes) for term in weights) == pytest.approx(measured["safetensors"], rel=0.01)


def test_pickled_files_are_read_whole_and_mapped_ones_cost_only_cache(probe):
    measured = probe("loading")
    size = measured["file_bytes"]

    def held(pickled: bool) -> int:
        terms = loading_terms(Checkpoint(size // 4, 4, 4, pickled=pickled), copies=0)
        return sum(int(term.bytes) for term in terms if term.alive != CACHED)

    assert held(pickled=True) == pytest.approx(measured["pickled_bytes"], rel=0.1)
    for mapped in ("pickled_mapped_bytes", "safetensors_bytes"):
        assert held(pickled=False) == 0
        assert measured[mapped] < size / 1000
