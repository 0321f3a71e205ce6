"""Optimizers that are only records: what they keep for one matrix, one table and one vector."""

import pytest

from planner.engine.optimizer import ParameterTensor, optimizer_records, state_terms, step_temporary_terms

ROWS, COLUMNS = 4096, 1024
MATRIX = ParameterTensor((ROWS, COLUMNS), 1, 4)
TABLE = ParameterTensor((32000, COLUMNS), 1, 4, hidden=False)
VECTOR = ParameterTensor((COLUMNS,), 1, 4)
ELEMENTS = ROWS * COLUMNS


def states(optimizer: str, *tensors: ParameterTensor) -> int:
    return sum(int(item.bytes) for item in state_terms(optimizer, None, tensors, ("optimizer_step",)))


@pytest.mark.parametrize(
    ("optimizer", "matrix_bytes"),
    [
        ("adamw_amsgrad", 12 * ELEMENTS),  # torch.optim: two averages and the maxima
        ("rmsprop_momentum", 8 * ELEMENTS),
        ("adam_mini", 4 * ELEMENTS + 4 * ROWS),  # one second moment per row
        ("muon", 4 * ELEMENTS),
        ("soap", 8 * ELEMENTS + 8 * (ROWS**2 + COLUMNS**2)),  # averages, and GG and Q per side
        ("shampoo", 8 * ELEMENTS + 8 * 4 * 2 * 1024**2),  # four blocks of 1024², two factors and their inverses each
        ("galore_adamw", 4 * 128 * (2 * ROWS + COLUMNS)),  # two averages of rank x longer side, rank x shorter side
        ("apollo_adamw", 4 * 256 * 2 * ROWS),
        ("apollo_mini", 4 * 2 * ROWS),
        ("lomo", 0),
        ("adalomo", 4 * (ROWS + COLUMNS)),
        ("prodigy", 16 * ELEMENTS),
        ("ademamix", 12 * ELEMENTS),
        ("adan", 16 * ELEMENTS),
    ],
)
def test_states_of_one_hidden_matrix(optimizer: str, matrix_bytes: int) -> None:
    assert states(optimizer, MATRIX) == matrix_bytes


@pytest.mark.parametrize("optimizer", ["muon", "galore_adamw", "apollo_adamw", "apollo_mini"])
def test_tables_and_vectors_are_left_to_adamw(optimizer: str) -> None:
    assert states(optimizer, TABLE, VECTOR) == 8 * (TABLE.elements + COLUMNS)


def test_soap_gives_sides_above_its_limit_no_preconditioner() -> None:
    assert states("soap", TABLE) == 8 * TABLE.elements + 8 * COLUMNS**2


def test_muon_works_in_bfloat16_on_one_hidden_matrix_at_a_time() -> None:
    told = step_temporary_terms("muon", None, (MATRIX, TABLE), ("optimizer_step",))
    assert sum(int(item.bytes) for item in told) == 4 * 2 * ELEMENTS


def test_only_fused_backward_optimizers_free_gradients_by_themselves() -> None:
    found = {name for name, record in optimizer_records().items() if record.in_backward}
    assert found == {"lomo", "adalomo", "galore_adamw_layerwise"}


def test_every_record_cites_its_source() -> None:
    for record in optimizer_records().values():
        assert record.source
        assert all(chosen["source"] for chosen in record.implementations.values())
