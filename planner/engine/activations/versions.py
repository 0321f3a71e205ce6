"""Which tensors a framework version makes that another does not."""

import re

OLDEST_MASK_BUILDER = (4, 53)
NEWEST_MASK_BUILDER = (5, 0)


def framework_version(text: str) -> tuple[int, ...]:
    """`transformers 4.57.6` as (4, 57, 6); empty where no number is stated."""
    found = re.search(r"(\d+(?:\.\d+)*)", text)
    return tuple(int(part) for part in found.group(1).split(".")) if found else ()


def is_before(version: str, first: tuple[int, ...]) -> bool:
    """Whether `version` is stated and older than `first`."""
    return () < framework_version(version) < first


def builds_mask_without_being_given_one(version: str) -> bool:
    """transformers 4.53 to 4.57 look for packed sequences when no mask is passed and no cache is used, in training.

    They build a mask from the position ids, and attention can no longer run without one. Source: transformers
    4.57.6, `masking_utils.py: _preprocess_mask_arguments` (`find_packed_sequence_indices`), and traces of both
    versions.
    """
    return OLDEST_MASK_BUILDER <= framework_version(version) < NEWEST_MASK_BUILDER
