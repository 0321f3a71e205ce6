"""Weights of layers that stay in host RAM (`--cpu-offload-gb`), so that a GPU holds less of them.

Parameters of the layers move one by one, from the first layer on, until so many bytes have moved; token table, head and
what is computed beside the layers stay (vllm/model_executor/models/utils.py and
python/sglang/srt/utils/offloader.py, `maybe_offload_to_cpu`, called by `make_layers`). vLLM's V1 reads them where they
lie (UVA); SGLang and vLLM's V0 copy all of a layer to the GPU for its pass.
"""

from dataclasses import replace

from planner.engine.kv_cache import total_bytes
from planner.engine.rounding import ceil_div
from planner.engine.servers.versions import vllm_band
from planner.engine.servers.workload import RUNNING, ServingWorkload
from planner.engine.term import Factor, Term

STAYING = ("embeddings", "head", "rotary")
"""Beginnings of the names of terms that are no layers."""
SOURCE = "vllm/model_executor/models/utils.py, python/sglang/srt/utils/offloader.py: maybe_offload_to_cpu by parameter"
FETCH_SOURCE = "functional_call with a copy of the layer's parameters on the GPU (maybe_offload_to_cpu)"


def layer_bytes(terms: tuple[Term, ...]) -> int:
    """What of the weights can move: those of layers."""
    return int(total_bytes(item for item in terms if _moves(item)))


def kept_on_gpu(terms: tuple[Term, ...], host_bytes: int) -> tuple[Term, ...]:
    """The weights without `host_bytes` of the layers, the largest terms giving theirs up first."""
    left, kept = host_bytes, {item: item for item in terms}
    for item in sorted(filter(_moves, terms), key=lambda item: int(item.bytes), reverse=True):
        moved = min(left, int(item.bytes))
        left -= moved
        if moved:
            note = f"{int(item.bytes)} of which {moved} lie in host RAM"
            factors = (Factor("bytes", int(item.bytes) - moved, note),)
            kept[item] = replace(item, factors=factors, source=f"{item.source}. {SOURCE}")
    return tuple(item for item in kept.values() if item.bytes)


def fetched_layer(load: ServingWorkload, terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """The copy of one layer that engines make which cannot read host RAM from the GPU."""
    if not load.host_weights_bytes or (load.engine == "vllm" and vllm_band(load.version).generation == "V1"):
        return ()
    layers = max(1, ceil_div(load.spec.stack.layers, load.pipeline))
    size = min(load.host_weights_bytes, layer_bytes(terms) // layers)
    factors = (Factor("bytes", size, f"a layer of {layers}"),)
    return (Term("temporaries", "layer fetched from host RAM", factors, RUNNING, FETCH_SOURCE),)


def _moves(item: Term) -> bool:
    return not item.name.startswith(STAYING)
