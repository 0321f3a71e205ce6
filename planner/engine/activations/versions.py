"""Which tensors a framework version makes that another does not."""

import re
from functools import lru_cache

OLDEST_MASK_BUILDER = (4, 53)
NEWEST_MASK_BUILDER = (5, 0)
MASK_OF_THEIR_OWN = frozenset({"falcon", "nemotron", "stablelm"})
"""Model types whose class of 4.57.6 has a `_update_causal_mask` of its own (`_ignore_causal_mask_sdpa`)."""


@lru_cache(maxsize=64)
def framework_version(text: str) -> tuple[int, ...]:
    """`transformers 4.57.6` as (4, 57, 6); empty where no number is stated."""
    found = re.search(r"(\d+(?:\.\d+)*)", text)
    return tuple(int(part) for part in found.group(1).split(".")) if found else ()


def is_before(version: str, first: tuple[int, ...]) -> bool:
    """Whether `version` is stated and older than `first`."""
    return () < framework_version(version) < first


def builds_mask_without_being_given_one(version: str, model_type: str = "") -> bool:
    """transformers 4.53 to 4.57 look for packed sequences when no mask is passed and no cache is used.

    They build a mask from the position ids, and attention can no longer run without one. Source: transformers
    4.57.6, `masking_utils.py: _preprocess_mask_arguments` (`find_packed_sequence_indices`), and traces of both
    versions. A class with a mask of its own leaves it out (`models/falcon/modeling_falcon.py: _update_causal_mask`).
    """
    return (
        model_type not in MASK_OF_THEIR_OWN and OLDEST_MASK_BUILDER <= framework_version(version) < NEWEST_MASK_BUILDER
    )


def precedes_transformers_5(version: str) -> bool:
    """Whether it is a 4.x (or older) version of transformers that is stated."""
    return version.lower().startswith("transformers") and is_before(version, NEWEST_MASK_BUILDER)


def checkpoints_layers_of_stages(version: str) -> bool:
    """Whether Swin checkpoints each block inside a checkpointed stage.

    Source: transformers 5.24 `models/swin/modeling_swin.py`, where both are a `GradientCheckpointingLayer`; in
    4.57.6 the stage alone is one.
    """
    return not is_before(version, (5,))


def keeps_inputs_of_4bit_products(version: str) -> bool:
    """Whether LitGPT's bitsandbytes holds the input of a 4-bit product as long as the graph lives.

    bitsandbytes before 0.43.2 does (its pull request 1270), and LitGPT asked for 0.42 until 0.5.4; 0.5.5 asks for 0.44
    (LitGPT `pyproject.toml`, pull request 1893). Where no version of LitGPT is stated, it is taken for an older one.
    """
    return not _litgpt(version) >= (0, 5, 5)


def rounds_before_the_weight(version: str) -> bool:
    """LitGPT before 0.4.6 cast the normalised input to 16 bits before its product with the weight of an RMS norm.

    Source: LitGPT `litgpt/model.py: RMSNorm.forward`, pull request 1545.
    """
    return () < _litgpt(version) < (0, 4, 6)


UNSTATED_LITGPT = (
    "No version of LitGPT is stated (such as litgpt 0.5.5): it is counted as of 2024, with bitsandbytes 0.42, whose "
    "4-bit products hold their inputs."
)


def is_unstated_litgpt(version: str) -> bool:
    """Whether the framework's version says nothing of LitGPT's, which decides what its 4-bit products keep."""
    return not _litgpt(version)


def _litgpt(version: str) -> tuple[int, ...]:
    """The version of LitGPT, where it is LitGPT's that is stated."""
    return framework_version(version) if version.lower().startswith("litgpt") else ()
