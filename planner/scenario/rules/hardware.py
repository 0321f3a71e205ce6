"""GPUs and nodes: whether the catalogue knows them, and what their arithmetic can do."""

from collections.abc import Iterator
from difflib import get_close_matches
from math import inf
from typing import TYPE_CHECKING

from planner.errors import CatalogueError, Issue, Severity
from planner.scenario.hardware import CustomGpu, Hardware
from planner.scenario.rules.applicability import POOLED
from planner.scenario.rules.facts import ListedGpu, PhaseFacts
from planner.scenario.serving import Serving

if TYPE_CHECKING:
    from planner.hardware import Gpu, HardwareCatalog

TURING, AMPERE, ADA = 7.5, 8.0, 8.9
"""Compute capabilities of NVIDIA GPUs."""


def listed_gpus(hardware: Hardware, catalogue: "HardwareCatalog | None") -> tuple[ListedGpu, ...]:
    """The GPUs of a scenario with what the catalogue knows of them."""
    pairs = zip(hardware.gpus, hardware.keys, strict=True)
    return tuple(_listed(entry, key, key == hardware.judged_by, catalogue) for entry, key in pairs)


def _listed(entry: str | CustomGpu, key: str, judges: bool, catalogue: "HardwareCatalog | None") -> ListedGpu:
    if catalogue is None:
        return ListedGpu(key, key, None, judges)
    try:
        gpu = catalogue.resolve(entry).gpu
    except CatalogueError as error:
        return ListedGpu(key, key, None, judges, error.message)
    return ListedGpu(key, gpu.title if gpu else key, gpu, judges)


def hardware_issues(
    hardware: Hardware, gpus: tuple[ListedGpu, ...], catalogue: "HardwareCatalog | None"
) -> Iterator[Issue]:
    """What is wrong with the list of GPUs, the judge and the node."""
    for index, listed in enumerate(gpus):
        where = f"hardware.gpus.{index}"
        if listed.problem:
            yield Issue("unknown_gpu", where, parameters={"message": listed.problem})
        if hardware.keys.index(listed.key) < index:
            yield Issue("gpu_twice", where, "warning", {"gpu": listed.key})
    if hardware.judge is not None and hardware.judge not in hardware.keys:
        yield Issue("judge_not_listed", "hardware.judge", "error", {"judge": hardware.judge, "legal": hardware.keys})
    if isinstance(hardware.node, str) and catalogue and hardware.node not in catalogue.nodes:
        near = get_close_matches(hardware.node, list(catalogue.nodes), n=1)
        parameters = {"node": hardware.node, **({"suggestion": near[0]} if near else {})}
        yield Issue("unknown_node", "hardware.node", "error", parameters)


def arithmetic_rules(facts: PhaseFacts) -> Iterator[Issue]:
    """Number formats that a GPU does not compute in.

    PyTorch emulates bf16 where it is missing; vLLM, SGLang and TensorRT-LLM refuse it below compute capability 8.0.
    fp8 and 4-bit weights are served without such units by unpacking them (Marlin kernels in vLLM).
    """
    phase = facts.phase
    if isinstance(phase, Serving):
        refused: Severity = "error" if phase.engine in POOLED else "warning"
        if phase.weights == "bf16":
            yield from _lacking(facts, "bf16", "no_bf16", "weights", refused, ("fp16",))
        if phase.weights == "fp8":
            yield from _lacking(facts, "fp8", "no_fp8_weights", "weights", "warning", ())
        if phase.weights in ("nvfp4", "mxfp4"):
            yield from _lacking(facts, "fp4", "no_fp4", "weights", "warning", ())
    elif hasattr(phase, "precision"):
        if "bf16" in phase.precision:
            legal = tuple(dict.fromkeys((phase.precision.replace("bf16", "fp16"), "fp32")))
            yield from _lacking(facts, "bf16", "no_bf16", "precision", "warning", legal)
        if phase.precision == "fp8":
            yield from _lacking(facts, "fp8", "no_fp8", "precision", "error", ("bf16",))


def _lacking(
    facts: PhaseFacts, ability: str, code: str, field: str, severity: Severity, legal: tuple[str, ...]
) -> Iterator[Issue]:
    """One issue for all GPUs without an ability; only a GPU that judges makes it an error."""
    without = [listed for listed in facts.gpus if listed.gpu and ability not in listed.gpu.supports]
    yield from _of_gpus(facts, without, code, field, severity, legal)


def _of_gpus(
    facts: PhaseFacts,
    gpus: list[ListedGpu],
    code: str,
    field: str,
    severity: Severity,
    legal: tuple[str, ...],
) -> Iterator[Issue]:
    if gpus:
        worst = severity if any(listed.judges for listed in gpus) else "warning"
        names = " and ".join(listed.name for listed in gpus)
        yield facts.issue(code, field, worst, gpu=names, legal=legal)


def flash_rules(facts: PhaseFacts) -> Iterator[Issue]:
    """FlashAttention 2 needs compute capability 8.0 on NVIDIA GPUs (its README)."""
    if getattr(facts.phase, "attention_implementation", "") != "flash_attention_2":
        return
    old = _older(facts, AMPERE)
    yield from _of_gpus(facts, old, "no_flash", "attention_implementation", "error", ("sdpa", "eager"))


def kernel_rules(facts: PhaseFacts) -> Iterator[Issue]:
    """What serving engines have no kernels for on older GPUs.

    AWQ needs compute capability 7.5 (vLLM and SGLang `AWQConfig.get_min_capability`). vLLM's attention backends take
    caches in fp8 from 8.9, FlashInfer alone from 8.0 (vLLM issues 26431 and 47549, pull request 47949).
    """
    phase = facts.phase
    if not isinstance(phase, Serving) or phase.engine not in POOLED:
        return
    if phase.weights == "awq-int4":
        yield from _of_gpus(facts, _older(facts, TURING), "no_awq", "weights", "error", ("gptq-int4", "fp16"))
    if phase.engine == "vllm" and phase.kv_cache_dtype.startswith("fp8"):
        old = _older(facts, AMPERE)
        yield from _of_gpus(facts, old, "no_fp8_cache", "kv_cache_dtype", "error", ("fp16",))
        newer = [listed for listed in _older(facts, ADA) if listed not in old]
        yield from _of_gpus(facts, newer, "fp8_cache_by_flashinfer", "kv_cache_dtype", "warning", ())


def _older(facts: PhaseFacts, capability: float) -> list[ListedGpu]:
    """GPUs of NVIDIA's below a compute capability."""
    return [listed for listed in facts.gpus if listed.gpu and _capability(listed.gpu) < capability]


def _capability(gpu: "Gpu") -> float:
    """The compute capability; of other vendors' GPUs one above all."""
    try:
        return float(gpu.compute_capability) if gpu.vendor == "NVIDIA" else inf
    except ValueError:
        return inf


GPU_RULES = (arithmetic_rules, flash_rules, kernel_rules)
