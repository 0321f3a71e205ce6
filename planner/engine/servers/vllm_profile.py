"""What vLLM's profile run holds at its fullest: a forward pass over the largest step, then the sampling of its rows.

Checked against 30 logs of versions 0.6.4 to 0.19: the sampler's within 0.3 %, two long V0 prompts within 0.3 %.
"""

from planner.engine.rounding import ceil_div, smaller
from planner.engine.servers.torch_engine import widest_layer
from planner.engine.servers.versions import VersionBand, vllm_rules
from planner.engine.servers.workload import RUNNING, ServingWorkload, vocabulary
from planner.engine.term import Factor, Number, Term
from planner.hardware import ChosenGpu, Overheads
from planner.model.spec import DenseFeedForward, MixtureOfExperts

FORWARD_SOURCE = (
    "Gate, up and product beside tensors of the hidden width; vLLM 0.6.4 logs of two prompt lengths, and V1 logs of "
    "pipeline ranks that do not sample"
)
MOE_SOURCE = (
    "vllm/model_executor/layers/fused_moe/fused_moe.py TritonExperts.workspace_shapes: (tokens, experts per token, "
    "max(expert width, hidden)) and (…, max(2 x expert width, hidden)); kept in vllm/v1/worker/workspace.py"
)
ENCODER_SOURCE = (
    "vllm/v1/worker/gpu_model_runner.py profile_run: as many of the largest images as a step holds, kept while the "
    "model runs (vllm/multimodal/encoder_budget.py)"
)
SAMPLER_SOURCE = (
    "vllm/v1/worker/gpu_model_runner.py _dummy_sampler_run: the model's logits, fp32 copies, and either a sort with "
    "its indices and buffers or probabilities and noise. "
)


def profile_terms(
    load: ServingWorkload, tokens: Number, sequences: int, band: VersionBand, chosen: ChosenGpu, overheads: Overheads
) -> tuple[Term, ...]:
    """Activations of a step of `tokens` tokens that samples `sequences` rows, on the fullest rank."""
    width = activation_bytes(load)
    workspace = overheads.cublas_workspace(chosen.gpu)
    terms = [
        _forward(load, tokens, band, width),
        *_experts(load, tokens, band, width),
        *_encoders(load, tokens, width),
        Term("activations", "cuBLAS workspace", (Factor("bytes", workspace.bytes),), RUNNING, workspace.source),
    ]
    samples = vocabulary(load.spec) and band.sampler_bytes and not (band.generation == "V0" and load.chunked_prefill)
    if samples:
        terms += _sampler(load, tokens, sequences, band, chosen, width)
    return tuple(terms)


def activation_bytes(load: ServingWorkload) -> int:
    """Width of activations: quantized weights compute in 16 bits."""
    return 4 if load.weights == "fp32" else 2


def _forward(load: ServingWorkload, tokens: Number, band: VersionBand, width: int) -> Term:
    hidden, inner = load.spec.stack.hidden_size, widest_layer(load)
    kept = band.forward_hidden
    factors = (
        Factor("tokens per step", tokens),
        Factor("widths", inner + kept * hidden, f"{inner} of the widest layer + {kept} x {hidden}"),
        Factor("bytes", width),
    )
    return Term("activations", "forward pass", factors, ("prefill",), FORWARD_SOURCE)


def _experts(load: ServingWorkload, tokens: Number, band: VersionBand, width: int) -> tuple[Term, ...]:
    """Two workspaces for the rows that visit experts; later versions keep them while sampling."""
    rules = vllm_rules()
    experts = [g.feed_forward for g in load.spec.stack.groups if isinstance(g.feed_forward, MixtureOfExperts)]
    if not experts or load.weights not in rules.moe_workspace_formats:
        return ()
    largest = max(experts, key=lambda layer: layer.experts_per_token * layer.size)
    hidden = load.spec.stack.hidden_size
    size = largest.size if load.expert_parallel > 1 else ceil_div(largest.size, load.tensor_parallel)
    first, second = max(size, hidden), max(2 * size, hidden)
    factors = (
        Factor("tokens per step", smaller(tokens, rules.moe_chunk_tokens)),
        Factor("experts per token", largest.experts_per_token),
        Factor("widths", first + second, f"max({size}, {hidden}) + max({2 * size}, {hidden})"),
        Factor("bytes", width),
    )
    alive = RUNNING if band.moe_kept else ("prefill",)
    return (Term("activations", "expert workspaces", factors, alive, MOE_SOURCE),)


def _encoders(load: ServingWorkload, tokens: Number, width: int) -> tuple[Term, ...]:
    """A step full of images: the tower's pass over their patches, and the embeddings that wait for the model."""
    hidden = load.spec.stack.hidden_size
    found: list[Term] = []
    for tower in load.spec.stacks[1:]:
        if tower.image is None:
            continue
        image = tower.image
        patches = image.merge_size**2
        if image.tokens_per_image and image.image_size:
            patches = max(1, (image.image_size // image.patch_size) ** 2 // image.tokens_per_image)
        inner = max((3 if g.feed_forward.gated else 2) * g.feed_forward.size if isinstance(
            g.feed_forward, DenseFeedForward) else 0 for g in tower.groups)  # fmt: skip
        widths = Factor("widths", inner + 6 * tower.hidden_size, f"{inner} inside + 6 x {tower.hidden_size}")
        step = Factor("tokens per step", tokens)
        found += [
            Term("activations", f"{tower.name} pass", (step, Factor("patches per token", patches), widths,
                 Factor("bytes", width)), ("encoding",), ENCODER_SOURCE),
            Term("activations", "image embeddings", (step, Factor("hidden", hidden), Factor("bytes", width)),
                 ("encoding", "prefill", "sampling"), ENCODER_SOURCE),
        ]  # fmt: skip
    return tuple(found)


def _sampler(
    load: ServingWorkload, tokens: Number, sequences: int, band: VersionBand, chosen: ChosenGpu, width: int
) -> list[Term]:
    """Not divided by tensor parallelism: logits are gathered first. The step's hidden states are still alive."""
    hidden, scores = Factor("hidden", load.spec.stack.hidden_size), Factor("vocabulary", vocabulary(load.spec))
    rows, source = Factor("sequences per step", sequences), SAMPLER_SOURCE + band.source
    each = Factor("bytes", width + band.sampler_bytes, f"logits of {width} and {band.sampler_bytes} of the sampler")
    terms = [
        Term("logits", "sampler", (rows, scores, each), ("sampling", "decode"), source),
        Term("activations", "hidden states of the step", (Factor("tokens per step", tokens), hidden,
             Factor("bytes", width)), ("sampling",), source),
    ]  # fmt: skip
    if band.generation == "V1":
        copies = (rows, hidden, Factor("copies", 2, "the rows taken, and random ones in their place"))
        terms.append(Term("activations", "sampled rows", (*copies, Factor("bytes", width)), ("sampling",), source))
    if band.sampler_rows:
        count = vllm_rules().multiprocessors_of(chosen.gpu.name if chosen.gpu else "")
        row_source = "vllm/v1/sample/ops/topk_topp_triton.py: one fp32 row per multiprocessor, kept"
        terms.append(
            Term("logits", "top-k rows", (Factor("multiprocessors", count), scores, Factor("bytes", 4)),
                 ("sampling", "decode"), row_source)
        )  # fmt: skip
    if load.speculative_tokens:
        terms.append(
            Term("logits", "rejection sampler", (rows, scores, Factor("bytes", 4)), ("sampling", "decode"),
                 "vllm/v1/sample/rejection_sampler.py: fp32 scores; one drafted token is profiled (vllm#38220)")
        )  # fmt: skip
    return terms


def unprofiled_bytes(load: ServingWorkload, sequences: int) -> int:
    """Scores of further drafted tokens, which steps take beyond the budget (vllm-project/vllm#38220)."""
    return max(load.speculative_tokens - 1, 0) * sequences * vocabulary(load.spec) * 4
