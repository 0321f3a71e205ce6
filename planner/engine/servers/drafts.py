"""What drafts tokens beside the model: its own draft layer, an EAGLE head, or a smaller model with a cache of its own.

A head holds one more layer of the model's kind; a smaller model holds all of its own weights and, for every token of
every sequence, the keys and values of its own layers (vllm/v1/spec_decode/eagle.py and draft_model.py,
python/sglang/srt/speculative/eagle_worker.py and standalone_worker.py, llama.cpp `-md`).
"""

from dataclasses import replace

from planner.engine.servers.versions import vllm_rules
from planner.engine.servers.workload import LOADED, ServingWorkload
from planner.engine.term import Factor, Term
from planner.model.prediction import drafting_modules
from planner.model.spec import Attention, LatentAttention, LayerGroup, ModelSpec, Stack

HEADS = ("eagle", "eagle3")
OWN_LAYER = ("automatic", "mtp")
EAGLE_SOURCE = (
    "vllm/model_executor/models/llama_eagle.py: fc of two widths to one and one decoder layer; token table and head "
    "are the model's own (EAGLE, arXiv:2401.15077)"
)
EAGLE3_SOURCE = (
    "vllm/model_executor/models/llama_eagle3.py: fc of three widths to one, a decoder layer whose queries, keys and "
    "values read two widths, and a head over the draft vocabulary (EAGLE-3, arXiv:2503.01840)"
)


def drafted_load(load: ServingWorkload) -> ServingWorkload | None:
    """The draft model as a load of its own, or the layer of a head, whose cache is counted like a layer's."""
    if not load.speculative_tokens:
        return None
    if load.draft_method == "draft-model" and load.draft_spec is not None:
        spec = load.draft_spec
    elif load.draft_method in HEADS:
        spec = head_layer(load.spec)
    else:
        return None
    return replace(
        load,
        spec=spec,
        draft_spec=None,
        draft_method="ngram",
        adapters=None,
        weights=_format(load),
        host_weights_bytes=0,
    )


def drafted_caches(load: ServingWorkload) -> tuple[ServingWorkload, ...]:
    """Loads whose keys and values stand beside the model's: of a draft model or head, or of the model's own layers."""
    drafted = drafted_load(load)
    if drafted is not None:
        return (drafted,)
    if not load.speculative_tokens or load.draft_method not in OWN_LAYER or not drafts_itself(load.spec):
        return ()
    return (replace(load, spec=drafting_modules(load.spec), speculative_tokens=0, adapters=None),)


def drafts_itself(spec: ModelSpec) -> bool:
    """Whether engines know prediction layers of the model: its file states them, or its family has them."""
    return spec.prediction is not None or spec.model_type in vllm_rules().draft_layer_models


def _format(load: ServingWorkload) -> str:
    """Heads and draft models are published in 16 bits; those of llama.cpp in the file type that is asked for."""
    return load.weights if load.engine == "llama.cpp" or load.weights in ("fp32", "fp16") else "bf16"


def head_layer(spec: ModelSpec) -> ModelSpec:
    """One layer of the model's kind: the last with attention, without token table and head."""
    stack = spec.stack
    groups = [group for group in stack.groups if isinstance(group.mixer, Attention | LatentAttention)]
    chosen: tuple[LayerGroup, ...] = (replace(groups[-1], count=1, indices=()),) if groups else ()
    layer = Stack(stack.name, stack.hidden_size, None, chosen, None)
    return replace(spec, stacks=(layer,), head=None, max_positions=None)


def head_terms(load: ServingWorkload) -> tuple[Term, ...]:
    """What an EAGLE head holds beside its layer."""
    if not load.speculative_tokens or load.draft_method not in HEADS:
        return ()
    hidden, width = load.spec.stack.hidden_size, 4 if load.weights == "fp32" else 2
    eagle3 = load.draft_method == "eagle3"
    source, bytes_each = EAGLE3_SOURCE if eagle3 else EAGLE_SOURCE, Factor("bytes", width)
    joined = 3 if eagle3 else 2
    terms = [
        Term("weights", "draft projection",
             (Factor("inputs", joined * hidden, f"{joined} x {hidden}"), Factor("outputs", hidden), bytes_each), LOADED,
             source)
    ]  # fmt: skip
    mixer = next((group.mixer for group in head_layer(load.spec).stack.groups), None)
    if eagle3 and isinstance(mixer, Attention):
        outputs = (mixer.query_size + mixer.kv_heads * (mixer.head_dim + mixer.value_dim)) // load.tensor_parallel
        wider = (Factor("further inputs", hidden), Factor("outputs", outputs, "queries, keys and values"), bytes_each)
        words = -(-load.draft_vocabulary // load.tensor_parallel)
        head = (Factor("hidden", hidden), Factor("draft vocabulary", words), bytes_each)
        terms += [
            Term("weights", "draft attention inputs", wider, LOADED, source),
            Term("weights", "draft head", head, LOADED, source),
        ]
    return tuple(terms)


def as_draft(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """The same terms under names that say whose they are."""
    return tuple(replace(term, name=f"draft: {term.name}") for term in terms)
