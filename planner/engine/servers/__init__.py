"""The serving engines: one file each, all answering with a `ServerPlan`."""

from collections.abc import Callable, Mapping, Sequence

from planner.engine.servers.diffusion import diffusion_terms
from planner.engine.servers.division import ServerPlan, rate
from planner.engine.servers.llama_cpp import plan_llama_cpp
from planner.engine.servers.sglang import plan_sglang
from planner.engine.servers.tensorrt_llm import plan_tensorrt_llm
from planner.engine.servers.transformers import plan_transformers
from planner.engine.servers.vllm import plan_vllm
from planner.engine.servers.workload import MOMENTS, ServingWorkload, serving_workload
from planner.engine.term import Term
from planner.hardware import ChosenGpu, Overheads

POOLED: Mapping[str, Callable[[ServingWorkload, ChosenGpu, Overheads], ServerPlan]] = {
    "vllm": plan_vllm,
    "sglang": plan_sglang,
    "tensorrt-llm": plan_tensorrt_llm,
    "llama.cpp": plan_llama_cpp,
}
"""Engines whose working memory follows from their own rules."""


def plan_server(
    engine: str, load: ServingWorkload, chosen: ChosenGpu, overheads: Overheads, working_set: Sequence[Term] = ()
) -> ServerPlan:
    """How `engine` divides one GPU. Only transformers needs the traced `working_set` of a pass."""
    if engine in POOLED:
        return POOLED[engine](load, chosen, overheads)
    made = diffusion_terms(load) if load.spec.task == "diffusion" else working_set
    return plan_transformers(load, chosen, overheads, made)


__all__ = ["MOMENTS", "POOLED", "ServerPlan", "ServingWorkload", "plan_server", "rate", "serving_workload"]
