"""Optimizer states and step temporaries, against steps traced operator by operator (torch 2.13, transformers 5.24)."""

import numpy as np
import pytest

from planner.engine.optimizer import ParameterTensor, optimizer_records, state_terms, step_temporary_terms
from planner.errors import PlannerError

STEP = ("optimizer_step",)


def llama_1b_with_4_layers(dtype_bytes: int) -> tuple[ParameterTensor, ...]:
    """Llama-3.2-1B cut to 4 layers, tied embeddings, in the order of `named_parameters`."""
    layer = [(2048, 2048), (512, 2048), (512, 2048), (2048, 2048), (8192, 2048), (8192, 2048), (2048, 8192)]
    layer += [(2048,), (2048,)]
    shapes = [(128256, 2048), *layer * 4, (2048,)]
    return tuple(ParameterTensor(shape, 1, dtype_bytes) for shape in shapes)


def total(terms) -> int:
    return sum(item.bytes for item in terms)


@pytest.mark.parametrize(
    ("optimizer", "implementation", "dtype_bytes", "states", "temporaries"),
    [
        # peak_optimizer - end_backward of the traces llama-3.2-1b/b1s512/{bf16,fp32}/sdpa/*
        ("adamw", "foreach", 2, 2023825408, 5059571968 - 4047659264),
        ("adam", "foreach", 2, 2023825408, 5059571968 - 4047659264),
        ("adamw", "fused", 2, 2023825560, 0),
        ("adamw", "for-loop", 2, 2023825408, 5098332416 - 4047659264),
        ("sgd", "foreach", 2, 0, 0),
        ("sgd_momentum", "foreach", 2, 1011912704, 0),
        ("adafactor", "for-loop", 2, 649728, 2558216962 - 2024483584),
        ("adafactor", "transformers", 2, 1299608, 6228347288 - 2025133464),
        ("adamw", "fused", 4, 4047650968, 0),
        ("sgd", "foreach", 4, 0, 0),
        ("sgd_momentum", "foreach", 4, 2023825408, 0),
    ],
)
def test_states_and_temporaries_equal_the_traced_step(optimizer, implementation, dtype_bytes, states, temporaries):
    tensors = llama_1b_with_4_layers(dtype_bytes)
    assert total(state_terms(optimizer, implementation, tensors, STEP)) == states
    assert total(step_temporary_terms(optimizer, implementation, tensors, STEP)) == temporaries


def test_foreach_adamw_in_fp32_needs_four_bytes_per_parameter_more_during_the_step():
    tensors = llama_1b_with_4_layers(4)
    assert total(step_temporary_terms("adamw", "foreach", tensors, STEP)) == 4 * 505956352


def test_8_bit_adamw_takes_about_two_bytes_per_parameter():
    tensors = (ParameterTensor((4096, 4096), 10, 2),)
    assert total(state_terms("adamw_8bit", None, tensors, STEP)) == 10 * 4096 * 4096 * (2 + 8 / 256) + 2048


def test_8_bit_adamw_keeps_small_tensors_in_fp32():
    assert total(state_terms("adamw_8bit", None, (ParameterTensor((4095,), 1, 2),), STEP)) == 4095 * 8 + 2048


def test_4_bit_adamw_saves_what_torchao_published_for_llama_2_7b():
    # torchao: pure bf16 AdamW to 4 bit saves 18.4 GiB on 6.74 B parameters, that is 2.93 bytes each.
    tensors = (ParameterTensor((4096, 1645), 1000, 2),)
    parameters = 4096 * 1645 * 1000
    full, packed = (total(state_terms(name, "foreach", tensors, STEP)) for name in ("adamw", "adamw_4bit"))
    assert (full - packed) / parameters == pytest.approx(2.93, abs=0.01)


def test_paged_states_are_no_allocations_of_torch():
    tensors = (ParameterTensor((4096, 4096), 1, 2), ParameterTensor((4096,)))
    terms = state_terms("paged_adamw_32bit", None, tensors, STEP)
    assert {(item.component, item.bytes) for item in terms} == {
        ("optimizer_states", 4096 * 4),
        ("overhead", 4096 * 4096 * 4),
    }


def test_zero_divides_states_over_the_ranks():
    # ZeRO paper (Rajbhandari 2020), figure 1: 7.5 B parameters, 12 bytes of states over 64 ranks; Adam's two are 8.
    tensors = (ParameterTensor((7_500_000_000,), 1, 4),)
    assert total(state_terms("adamw", "foreach", tensors, STEP, shards=64)) == 7_500_000_000 * 8 // 64


def test_shards_may_be_an_array_over_the_points_of_a_sweep():
    tensors = (ParameterTensor((1024, 1024), 4, 4),)
    terms = state_terms("adamw", "foreach", tensors, STEP, shards=np.array([1, 2, 8]))
    assert list(sum(item.bytes for item in terms)) == [4 * 2**20 * 8, 4 * 2**20 * 4, 4 * 2**20]


def test_every_record_counts_and_names_its_source():
    tensors = llama_1b_with_4_layers(2)
    for record in optimizer_records().values():
        assert record.source
        for implementation in record.implementations:
            assert total(state_terms(record.id, implementation, tensors, STEP)) >= 0
            assert record.implementations[implementation]["source"]
            assert total(step_temporary_terms(record.id, implementation, tensors, STEP)) >= 0


def test_an_unknown_optimizer_is_refused_by_name():
    with pytest.raises(PlannerError, match="'adamx'"):
        state_terms("adamx", None, (), STEP)


def test_an_implementation_that_an_optimizer_lacks_is_refused():
    with pytest.raises(PlannerError, match="fused"):
        state_terms("adafactor", "fused", (), STEP)
