"""Data sets on disk against published sizes."""

import pytest

from planner.engine.plan import by_name
from planner.engine.storage import data_terms
from planner.units import GB


def test_tokenized_data_is_five_bytes_per_token_and_its_offsets_and_packed_data_four():
    stored = by_name(data_terms(10**6, 6000, converted=True, tokens=1500, token_bytes=5, packed_tokens=1500))
    assert stored == {
        "raw data": 6_000_000_000,
        "converted copy of the raw data": 6_000_000_000,
        "tokenized data": 7_508_000_000,
        "packed sequences": 6_000_000_000,
    }


def test_five_gigabytes_of_text_padded_to_128_int64_tokens_become_a_terabyte():
    # huggingface/datasets#861: a line per row, three columns of 128 x 8 bytes; 5 GB of 15-byte lines
    rows = 5 * GB // 15
    stored = by_name(data_terms(rows, 15, converted=False, tokens=128, token_bytes=24))
    assert stored["tokenized data"] == pytest.approx(rows * 128 * 8 * 3, rel=0.01)
    assert stored["tokenized data"] > 10**12


def test_openwebtext_packs_into_twice_what_16_bits_take():
    # karpathy/nanoGPT: train.bin of 9 035 582 198 tokens is about 17 GB as uint16; ids here are 32-bit
    stored = by_name(data_terms(1, 1, converted=False, packed_tokens=9_035_582_198))
    assert stored["packed sequences"] / 2 == pytest.approx(18.07e9, rel=0.001)
    assert stored["packed sequences"] / 2 / 2**30 == pytest.approx(17, rel=0.02)


def test_copies_multiply_everything():
    one, three = (by_name(data_terms(10, 100, converted=True, replicas=n, prepared_bytes=7)) for n in (1, 3))
    assert {name: 3 * size for name, size in one.items()} == three
