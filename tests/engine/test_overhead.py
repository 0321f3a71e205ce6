"""Memory beside the tensors, from the catalogue's allowances."""

import numpy as np

from planner.engine.overhead import allocator_term, llama_cpp_overhead, process_overhead, workspace_term
from planner.hardware import load_hardware
from planner.units import GIB, MIB

HARDWARE = load_hardware()
H100 = HARDWARE.gpus["h100-sxm5-80gb"]
ALIVE = ("forward",)


def test_one_process_on_an_h100_holds_a_context():
    one = process_overhead(H100, HARDWARE.overheads, ALIVE)
    assert {item.name: item.bytes for item in one.terms} == {"CUDA context and libraries": 530 * MIB}
    assert one.low_bytes <= one.bytes <= one.high_bytes


def test_training_reserves_a_cublas_workspace_for_forward_and_one_for_backward():
    # RTX A6000: `max_memory_allocated` is 17.0 MB above the trace of the same step, which has no workspace.
    a6000 = HARDWARE.gpus["rtx-a6000"]
    assert workspace_term(a6000, HARDWARE.overheads, ALIVE).bytes == 2 * (2 * 4096 + 8 * 16) * 1024
    assert workspace_term(H100, HARDWARE.overheads, ALIVE, training=False).bytes == 32 * MIB


def test_ranks_that_talk_to_each_other_add_communication_buffers():
    one, many = (process_overhead(H100, HARDWARE.overheads, ALIVE, gpus=count) for count in (1, 8))
    assert many.bytes - one.bytes == 1500 * MIB
    serving = process_overhead(H100, HARDWARE.overheads, ALIVE, gpus=2, training=False)
    assert one.bytes < serving.bytes < many.bytes


def test_a_gpu_nobody_measured_takes_the_stated_default():
    unknown = process_overhead(None, HARDWARE.overheads, ALIVE)
    assert "not a measurement" in unknown.terms[0].source


def test_llama_cpp_needs_less_than_torch():
    torch = process_overhead(H100, HARDWARE.overheads, ALIVE)
    assert llama_cpp_overhead(H100, HARDWARE.overheads, ALIVE).bytes < torch.bytes


def test_expandable_segments_nearly_end_fragmentation():
    fixed = allocator_term(50 * GIB, ALIVE).bytes
    assert allocator_term(50 * GIB, ALIVE, expandable_segments=True).bytes < fixed
    assert allocator_term(50 * GIB, ALIVE, variable_shapes=True).bytes > fixed


def test_the_allocators_share_broadcasts():
    assert list(allocator_term(np.array([100, 200]), ALIVE).bytes) == [4, 8]
