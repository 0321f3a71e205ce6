"""Rules of vLLM that change with its version, from a record in `resources/servers/`."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from planner.resources import resource

Version = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class VersionBand:
    """What vLLM profiles and reserves in a range of versions."""

    generation: str
    below: Version
    sampler_bytes: int
    """Profiled per sampled logit beside the logits as the model gives them; 0 where sampling was not profiled."""
    sampler_rows: bool
    """Whether top-k keeps a row of logits per multiprocessor instead of sorting."""
    small_gpu_sequences: int
    """Sequences of a step by default on cards below 70 GiB."""
    forward_hidden: int
    """Tensors of the hidden width that live beside a feed-forward."""
    moe_kept: bool
    """Whether the workspaces of the experts outlive their layer."""
    window_groups: bool
    """Whether sliding-window layers hold their window only, in pages that all layers share."""
    unequal_pages: bool
    """Whether layers whose pages differ in size can share them, too."""
    latent: bool
    """Whether latent attention caches its latent; before, it cached expanded keys and values."""
    non_torch_mib: float | None
    non_torch_parallel_mib: float | None
    graphs_in_budget: bool
    source: str


@dataclass(frozen=True, slots=True)
class VllmRules:
    """The record of vLLM: its bands, and what holds for all versions."""

    assumed_version: str
    v1_from: Version
    spread_from: Version
    """The oldest version that an unstated one may be."""
    graphs_mib: tuple[float, float]
    """The least and the most that captured graphs of the default sizes took."""
    non_torch_seen: str
    """What logs of other versions and cards show of non-torch memory, for whoever asks how sure the figure is."""
    moe_chunk_tokens: int
    moe_workspace_formats: tuple[str, ...]
    mxfp4_hidden_multiple: int
    fp32_state_models: tuple[str, ...]
    draft_layer_models: tuple[str, ...]
    draft_head_shared_from: Version
    lora_embedding_models: tuple[str, ...]
    """Families whose token table and head have places for adapters."""
    lora_extra_vocabulary: int
    lora_vocabulary_below: Version
    lora_experts_from: Version
    multiprocessors: Mapping[str, int]
    bands: tuple[VersionBand, ...]

    def multiprocessors_of(self, gpu_name: str) -> int:
        """Streaming multiprocessors of a GPU by the longest listed part of its name; 132 if none is listed."""
        known = [name for name in self.multiprocessors if name in gpu_name]
        return self.multiprocessors[max(known, key=len)] if known else 132


@cache
def vllm_rules() -> VllmRules:
    """The record in `resources/servers/vllm.json`."""
    record: dict[str, Any] = json.loads(resource("servers", "vllm.json").read_text("utf-8"))
    bands = tuple(VersionBand(**{**band, "below": tuple(band["below"])}) for band in record["bands"])
    return VllmRules(
        assumed_version=record["assumed_version"],
        v1_from=tuple(record["v1_from"]),
        spread_from=tuple(record["spread_from"]),
        graphs_mib=tuple(record["graphs_mib"]),
        non_torch_seen=record["non_torch_seen"],
        moe_chunk_tokens=record["moe_chunk_tokens"],
        moe_workspace_formats=tuple(record["moe_workspace_formats"]),
        mxfp4_hidden_multiple=record["mxfp4_hidden_multiple"],
        fp32_state_models=tuple(record["fp32_state_models"]),
        draft_layer_models=tuple(record["draft_layer_models"]),
        draft_head_shared_from=tuple(record["draft_head_shared_from"]),
        lora_embedding_models=tuple(record["lora_embedding_models"]),
        lora_extra_vocabulary=record["lora_extra_vocabulary"],
        lora_vocabulary_below=tuple(record["lora_vocabulary_below"]),
        lora_experts_from=tuple(record["lora_experts_from"]),
        multiprocessors=record["multiprocessors"],
        bands=bands,
    )


def shares_draft_head(version: str | None) -> bool:
    """Whether a version gives the model's head to prediction layers that have a copy; the assumed one if not stated."""
    rules = vllm_rules()
    number = version_number(version or rules.assumed_version)
    return number is None or number >= rules.draft_head_shared_from


@cache
def vllm_band(version: str | None) -> VersionBand:
    """The rules of a version such as `0.19.0 V1`; an unknown one is taken as the record's assumed version."""
    rules = vllm_rules()
    text = version or rules.assumed_version
    number = version_number(text) or version_number(rules.assumed_version) or rules.v1_from
    stated = text[-2:] if text.endswith(("V0", "V1")) else None
    generation = stated or ("V1" if number >= rules.v1_from else "V0")
    return next(band for band in rules.bands if band.generation == generation and number < band.below)


def possible_versions() -> tuple[str, ...]:
    """One version of each band of the present generation, for logs that do not tell theirs."""
    rules = vllm_rules()
    ends = [band.below for band in rules.bands if band.generation == "V1" and band.below > rules.spread_from]
    return tuple(f"{major}.{minor - 1} V1" if minor else f"{major - 1}.0 V1" for major, minor, _ in ends)


def version_number(text: str) -> Version | None:
    """`0.6.5` as (0, 6, 5), a missing third part being 0; None where the text does not begin with a version."""
    found = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", text)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None
