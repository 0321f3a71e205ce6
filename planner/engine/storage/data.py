"""A data set on its way: raw files, their converted copy, prepared samples, packed sequences."""

from planner.engine.host.amounts import amounts
from planner.engine.storage.weights import STORAGE
from planner.engine.term import Factor, Number, Term

RAW_SOURCE = "the files as they are"
CONVERTED_SOURCE = "datasets load_dataset: every file is converted to Arrow in the cache; 0.997 of JSON measured"
PREPARED_SOURCE = "prepared samples as tensors: elements x width"


def data_terms(
    samples: Number,
    raw_bytes: Number,
    *,
    converted: bool,
    replicas: int = 1,
    tokens: Number = 0,
    token_bytes: Number = 0,
    packed_tokens: Number = 0,
    prepared_bytes: Number = 0,
) -> tuple[Term, ...]:
    """What of a data set lies on disk, every part in `replicas` copies.

    `tokens` per sample are stored with `token_bytes` each and Arrow's offsets, `packed_tokens` end to end;
    `prepared_bytes` per sample are those of other data.
    """
    known = amounts()
    count = (Factor("copies", replicas), Factor("samples", samples))
    raw = (*count, Factor("bytes per sample", raw_bytes))
    packed = known["packed_token_bytes"]
    terms = [Term("data", "raw data", raw, STORAGE, RAW_SOURCE)]
    if converted:
        terms.append(Term("data", "converted copy of the raw data", raw, STORAGE, CONVERTED_SOURCE))
    if any_of(tokens):
        offsets = int(known["arrow_offset_bytes"].value)
        size = tokens * token_bytes + offsets
        row = Factor("bytes per sample", size, f"tokens x {token_bytes} + {offsets} for offsets")
        terms.append(Term("data", "tokenized data", (*count, row), STORAGE, known["arrow_token_bytes"].source))
    if any_of(packed_tokens):
        ids = (*count, Factor("tokens", packed_tokens), packed.factor("bytes"))
        terms.append(Term("data", "packed sequences", ids, STORAGE, packed.source))
    if any_of(prepared_bytes):
        prepared = (*count, Factor("bytes per sample", prepared_bytes))
        terms.append(Term("data", "prepared samples", prepared, STORAGE, PREPARED_SOURCE))
    return tuple(terms)


def any_of(value: Number) -> bool:
    """Whether a number, or any of several, is not zero."""
    return bool(value) if isinstance(value, int | float) else bool(value.any())
