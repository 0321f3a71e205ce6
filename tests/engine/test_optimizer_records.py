"""Optimizers that are only records: what they keep for one matrix, one table and one vector."""

from dataclasses import replace

import pytest

from planner.engine.optimizer import ParameterTensor, optimizer_records, state_terms, step_temporary_terms

ROWS, COLUMNS = 4096, 1024
MATRIX = ParameterTensor((ROWS, COLUMNS), 1, 4)
TABLE = ParameterTensor((32000, COLUMNS), 1, 4, hidden=False)
VECTOR = ParameterTensor((COLUMNS,), 1, 4)
ELEMENTS = ROWS * COLUMNS


def states(optimizer: str, *tensors: ParameterTensor) -> int:
    return sum(int(item.bytes) for item in state_terms(optimizer, None, tensors, ("optimizer_step",)))


WIDTH = 128
SMALL_DECODER = (
    ParameterTensor((640, WIDTH), hidden=False),
    *(
        ParameterTensor(shape)
        for shape in 2 * ((WIDTH, WIDTH), (64, WIDTH), (WIDTH, WIDTH), (256, WIDTH), (WIDTH, 256), (WIDTH,))
    ),
    ParameterTensor((WIDTH,)),
    ParameterTensor((640, WIDTH), hidden=False),
)
"""A token table, two layers of q, k, o, up, down and a norm, the last norm and the head."""
WIDE_DECODER = (
    ParameterTensor((1000, 256), hidden=False),
    ParameterTensor((256,)),
    ParameterTensor((512, 256)),
    ParameterTensor((256, 1024)),
)


def traced(optimizer: str, implementation: str, tensors: tuple[ParameterTensor, ...], width: int) -> tuple[int, int]:
    own = [replace(tensor, dtype_bytes=width) for tensor in tensors]
    told = (rule(optimizer, implementation, own, ("optimizer_step",)) for rule in (state_terms, step_temporary_terms))
    states, temporaries = (sum(int(item.bytes) for item in terms) for terms in told)
    return states, temporaries


@pytest.mark.parametrize(
    ("optimizer", "implementation", "width", "states", "temporaries"),
    [
        # Steps of the real classes on these shapes, with every storage followed from its birth to its death: torch
        # 2.13, timm 1.0.31, prodigyopt 1.1.2, schedulefree 1.4.1, sail-sg/Adan 2c65bea, apple/ml-ademamix c3d73c0,
        # nikhilvyas/SOAP a1e5535 (its tenth update, which renews the eigenbases).
        ("sgd_momentum", "foreach", 4, 1508864, 0),
        ("adamw", "foreach", 4, 3017728, 1508864),
        ("adamw", "for-loop", 2, 1508864, 327936),
        ("adamw", "fused", 2, 1508924, 0),
        ("adam_amsgrad", "foreach", 4, 4526592, 1508864),
        ("adamw_amsgrad", "for-loop", 4, 4526592, 655872),
        ("adamw_amsgrad", "fused", 2, 2263356, 0),
        ("adagrad", "foreach", 4, 1508864, 3017728),
        ("adagrad", "for-loop", 4, 1508864, 393216),
        ("rmsprop", "foreach", 2, 754432, 754432),
        ("rmsprop", "for-loop", 4, 1508864, 393216),
        ("rmsprop_momentum", "foreach", 4, 3017728, 1508864),
        ("rmsprop_momentum", "for-loop", 4, 3017728, 393216),
        ("rmsprop_centered", "foreach", 4, 3017728, 1508864),
        ("rmsprop_centered", "for-loop", 2, 1508864, 196608),
        ("nadam", "foreach", 4, 3017728, 1508864),
        ("nadam", "for-loop", 4, 3017728, 655872),
        ("adafactor", "foreach", 4, 19456, 1508864),
        ("adafactor", "for-loop", 2, 9728, 197122),
        ("lion", "foreach", 4, 1508864, 1508864),
        ("lion", "for-loop", 4, 1508864, 393216),
        ("lamb", "for-loop", 4, 3017728, 984068),
        ("lamb", "for-loop", 2, 1508864, 492034),
        ("adan", "foreach", 4, 6035456, 1508864),
        ("adan", "for-loop", 4, 6035456, 655872),
        ("ademamix", "*", 4, 4526592, 1311232),
        ("ademamix", "*", 2, 2263296, 655616),
        ("prodigy", "*", 4, 6035456, 393216),
        ("schedule_free_adamw", "foreach", 4, 3017728, 1508864),
        ("schedule_free_adamw", "for-loop", 4, 3017728, 393216),
        ("soap", "*", 4, 13831168, 8265216),
    ],
)
def test_a_step_equals_that_of_the_real_class_to_the_byte(
    optimizer: str, implementation: str, width: int, states: int, temporaries: int
) -> None:
    assert traced(optimizer, implementation, SMALL_DECODER, width) == (states, temporaries)


@pytest.mark.parametrize(
    ("optimizer", "width", "states", "temporaries"),
    [
        # galore-torch 1.0 and apollo-torch 1.0.3, at steps that renew the projections. In float32 GaLore's projection
        # is a view, whose storage has all singular vectors.
        ("galore_adamw", 4, 4147200, 3670016),
        ("galore_adamw", 2, 1942528, 3343360),
        ("apollo_adamw", 4, 5720072, 5246980),
        ("apollo_adamw", 2, 2860036, 2623490),
        ("apollo_mini", 4, 2064392, 2109448),
        ("apollo_mini", 2, 1032196, 1313796),
    ],
)
def test_a_step_in_a_projection_equals_that_of_the_real_class_to_the_byte(
    optimizer: str, width: int, states: int, temporaries: int
) -> None:
    assert traced(optimizer, "*", WIDE_DECODER, width) == (states, temporaries)


def test_lamb_over_lists_equals_the_real_class_but_for_its_norms() -> None:
    # timm 1.0.31: 4 527 095 bytes, of which 503 are norms and trust ratios of single tensors
    assert traced("lamb", "foreach", SMALL_DECODER, 4) == (3017728, 4527095 - 503)


def test_muon_in_float32_and_bfloat16_equals_the_real_class() -> None:
    # torch.optim.Muon of torch 2.13 over the hidden matrices alone: (851968, 327680) and (425984, 262144)
    hidden = tuple(tensor for tensor in SMALL_DECODER if tensor.is_hidden_matrix)
    assert traced("muon", "*", hidden, 4) == (851968, 327680)
    assert traced("muon", "*", hidden, 2) == (425984, 262144)


def test_the_adamw_beside_muon_makes_a_list_over_its_own_tensors() -> None:
    assert traced("muon", "*", SMALL_DECODER, 4)[1] == 4 * (2 * 640 * WIDTH + 3 * WIDTH)


def test_shampoo_keeps_triangles_and_makes_four_lists() -> None:
    # distributed_shampoo f606606 with Adam grafting and blocks of 1024: 8 640 528 bytes, of which 16 are counters. Its
    # lists are 6 035 456 bytes; matrices of 640², made to renew roots, are more here, but not in a large model.
    assert traced("shampoo", "*", SMALL_DECODER, 4) == (8640528 - 16, 6035456)
    assert traced("shampoo", "*", SMALL_DECODER, 2)[1] == 3017728


@pytest.mark.parametrize(
    ("optimizer", "bytes_kept"),
    [
        # bitsandbytes 0.50 and torchao 0.18 on (640, 128), (128, 128), (64, 128), (256, 128), (128, 256), (128,),
        # (100, 37) and (128, 33), in bfloat16
        ("adamw_8bit", 390696),
        ("adamw_32bit", 1440672),
        ("lion_8bit", 195348),
        ("ademamix_8bit", 585020),
        ("adamw_4bit", 203352),
        ("adamw_fp8", 381648),
    ],
)
def test_quantized_states_equal_those_of_the_real_class_to_the_byte(optimizer: str, bytes_kept: int) -> None:
    shapes = ((640, 128), (128, 128), (64, 128), (256, 128), (128, 256), (128,), (100, 37), (128, 33))
    assert states(optimizer, *(ParameterTensor(shape, 1, 2) for shape in shapes)) == bytes_kept


def test_scales_of_a_paged_optimizer_stay_in_torchs_allocator() -> None:
    # bitsandbytes 0.50, optim/optimizer.py init_state: absmax is made by torch.zeros, states by get_paged
    terms = state_terms("paged_adamw_8bit", None, (ParameterTensor((1024, 1024), 1, 2),), ("optimizer_step",))
    kept = sum(int(item.bytes) for item in terms if item.component == "optimizer_states")
    assert kept == 2 * 4 * 1024 * 1024 // 256 + 2048


@pytest.mark.parametrize(
    ("optimizer", "matrix_bytes"),
    [
        ("adam_mini", 4 * ELEMENTS + 4 * ROWS),  # one second moment per row
        ("muon", 4 * ELEMENTS),
        ("soap", 8 * ELEMENTS + 8 * (ROWS**2 + COLUMNS**2)),  # averages, and GG and Q per side
        # four blocks of 1024², of which two triangles and their inverses each
        ("shampoo", 8 * ELEMENTS + 8 * 4 * 2 * (1024 * 1025 // 2)),
        ("lomo", 0),
        ("adalomo", 4 * (ROWS + COLUMNS)),
    ],
)
def test_states_of_one_hidden_matrix(optimizer: str, matrix_bytes: int) -> None:
    assert states(optimizer, MATRIX) == matrix_bytes


@pytest.mark.parametrize("optimizer", ["muon", "galore_adamw", "apollo_adamw", "apollo_mini"])
def test_tables_and_vectors_are_left_to_adamw(optimizer: str) -> None:
    assert states(optimizer, TABLE, VECTOR) == 8 * (TABLE.elements + COLUMNS)


def test_soap_gives_sides_above_its_limit_no_preconditioner() -> None:
    assert states("soap", TABLE) == 8 * TABLE.elements + 8 * COLUMNS**2


def test_stacked_experts_are_left_to_adamw_by_muon_and_have_a_matrix_per_dimension_in_soap() -> None:
    experts = ParameterTensor((8, 64, 96), 1, 4)
    assert states("muon", experts) == 8 * experts.elements
    assert states("soap", experts) == 8 * experts.elements + 8 * (8**2 + 64**2 + 96**2)


def test_adam_mini_needs_a_square_an_update_and_three_numbers_per_row() -> None:
    # adam-mini 1.1.1: 663 040 bytes; its states are 1 518 140, as queries and keys have a number per head
    states_kept, temporaries = traced("adam_mini", "*", SMALL_DECODER, 4)
    assert temporaries == 663040
    assert states_kept - 1518140 == 4 * 2 * (WIDTH - 4 + 64 - 2)


def test_only_fused_backward_optimizers_free_gradients_by_themselves() -> None:
    found = {name for name, record in optimizer_records().items() if record.in_backward}
    assert found == {"lomo", "adalomo", "galore_adamw_layerwise"}


def test_every_record_cites_its_source() -> None:
    for record in optimizer_records().values():
        assert record.source
        assert all(chosen["source"] for chosen in record.implementations.values())
