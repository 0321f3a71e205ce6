"""Mixtures of experts as transformers 5 runs them: a router, the experts' matrices in one product, shared experts.

Sources: transformers 5.24 `integrations/moe.py: grouped_mm_experts_forward`, `batched_mm_experts_forward`; the routers
of `models/mixtral`, `models/qwen3_moe`, `models/granitemoe` and `models/deepseek_v3`.
"""

from planner.engine.activations import ops, ops_experts
from planner.engine.activations.blocks import LayerWeights, cast_weight, layer_dims, linear, mlp
from planner.engine.activations.functions import activate, saves_output
from planner.engine.activations.ops_scan import clamp, masked_fill
from planner.engine.activations.ops_shape import part, split
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.shape import ExpertShape, LayerShape
from planner.engine.activations.tape import Dim, Dims, Tape, Tensor
from planner.model.spec import Routing

MOE = "transformers 5.24, integrations/moe.py"
ROUTER = "transformers 5.24, models/mixtral/modeling_mixtral.py: MixtralTopKRouter and its relatives"


def make_experts(t: Tape, recipe: Recipe, shape: LayerShape, experts: ExpertShape) -> dict[str, Tensor]:
    """Router and experts, beside the linear layers that adapters can attach to."""
    count, own = layer_dims(shape, "experts"), layer_dims(shape, "own experts")
    size, width = layer_dims(shape, "expert ffn"), layer_dims(shape, "expert width")
    up: Dims = (2, size) if experts.gated else (size,)
    plan: list[tuple[str, Dims, str]] = [
        ("router", (count, "hidden"), "fp32" if experts.routing.fp32 else recipe.weight_dtype),
        ("up", (own, *up, width), recipe.weight_dtype),
        ("down", (own, width, size), recipe.weight_dtype),
    ]
    if experts.router_bias:
        plan.append(("router bias", (count,), recipe.weight_dtype))
    if experts.bias:
        plan += [("up bias", (own, *up), recipe.weight_dtype), ("down bias", (own, width), recipe.weight_dtype)]
    full = recipe.lora is None
    return {name: t.parameter(dims, dtype, trainable=full) for name, dims, dtype in plan}


def mixture(t: Tape, shape: LayerShape, experts: ExpertShape, weights: LayerWeights, hidden_states: Tensor) -> Tensor:
    """`Qwen2MoeSparseMoeBlock.forward`, or `DeepseekV2Moe.forward` with shared experts that nothing weighs."""
    with t.module("mlp", MOE):
        first = mlp(t, shape, weights, hidden_states) if experts.shared and experts.shared_first else None
        # The logits stay in a name of the block until it ends.
        logits, scores, places = _route(t, shape, experts, weights, hidden_states)
        output = _visit(t, shape, experts, weights, hidden_states, scores, places)
        if first is not None and not experts.shared_gate:
            output = ops.add(t, output, first, "experts and shared experts")
        elif first is not None:
            gate = saves_output(t, linear(t, weights.linears["shared_expert_gate"], hidden_states), "sigmoid")
            first = ops.mul(t, first, gate, "shared expert, weighed")
            del gate
            output = ops.add(t, output, first, "experts and shared expert")
        elif experts.shared:
            output = ops.add(t, output, mlp(t, shape, weights, hidden_states), "experts and shared experts")
        del logits, scores, places
        return output


def _route(
    t: Tape, shape: LayerShape, experts: ExpertShape, weights: LayerWeights, hidden_states: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    with t.module("gate", ROUTER):
        routing = experts.routing
        logits = _router_logits(t, shape, routing, weights, hidden_states)
        dtype = logits.dtype
        top: Dim = layer_dims(shape, "experts per token")
        if routing.scores == "softmax-of-chosen":
            if routing.fp32_scores:
                logits = ops.to(t, logits, "fp32", "logits in fp32")
            chosen, places = ops_experts.top_k(t, logits, top)
            chosen = ops.softmax(t, chosen, chosen.dtype)
            return logits, ops.to(t, chosen, hidden_states.dtype, "weights of experts"), places
        if routing.scores in ("softmax", "grouped-softmax"):
            scores = ops.softmax(t, ops.to(t, logits, "fp32", "logits in fp32"))
            if routing.scores == "grouped-softmax":
                scores = _best_groups(t, shape, scores, 1)
            chosen, places = ops_experts.top_k(t, scores, top)
        else:
            wide = ops.to(t, logits, "fp32", "logits in fp32") if routing.fp32_scores else logits
            scores = saves_output(t, wide, "sigmoid")
            with t.no_grad():
                choice = ops.shift(t, scores, "corrected scores")
                if routing.scores == "grouped-sigmoid":
                    choice = _best_groups(t, shape, choice, 2)
                places = ops_experts.top_k(t, choice, top)[1]
            chosen = ops_experts.gather(t, scores, places, "scores of the chosen")
            del choice
        if routing.normalised:
            chosen = ops_experts.normalise_in_place(t, chosen)
        if routing.scaled:
            chosen = ops.elementwise(t, chosen, "scaled weights")
        if not routing.fp32_weights:
            chosen = ops.to(t, chosen, dtype, "weights of experts")
        return logits, chosen, places


def _router_logits(
    t: Tape, shape: LayerShape, routing: Routing, weights: LayerWeights, hidden_states: Tensor
) -> Tensor:
    dims = (*hidden_states.dims[:-1], layer_dims(shape, "experts"))
    router, bias = weights.others["router"], weights.others.get("router bias")
    x = ops.to(t, hidden_states, "fp32", "hidden states in fp32") if routing.fp32 else hidden_states
    if t.autocast:
        x, router = ops.to(t, x, t.autocast, "input cast by autocast"), cast_weight(t, router)
        bias = cast_weight(t, bias) if bias is not None else None
    if bias is not None:
        return ops.addmm(t, bias, ops.view(t, x), ops.view(t, router), dims, "router logits")
    return ops.matmul(t, ops.view(t, x), ops.view(t, router), dims, "router logits")


def _best_groups(t: Tape, shape: LayerShape, choice: Tensor, best: int) -> Tensor:
    """Scores with those outside the best groups of experts masked; a group counts by its `best` experts."""
    groups: Dim = layer_dims(shape, "expert groups")
    tokens = choice.dims[:-1]
    with t.no_grad():
        values = t.new((*tokens, groups, best), "fp32", "best of each group")
        places = t.new((*tokens, groups, best), "int64", "places of the best")
        t.tick("best of each group")
        group_scores = values
        if best > 1:
            group_scores = t.new((*tokens, groups), "fp32", "scores of groups")
            t.tick("scores of groups")
        del values, places
        chosen = t.new((*tokens, layer_dims(shape, "chosen groups")), "int64", "chosen groups")
        t.tick("chosen groups")
        group_mask = ops.shift(t, group_scores, "mask of groups")
        score_mask = t.new(choice.dims, "fp32", "mask of experts")
        t.tick("mask of experts")
        boolean = t.new(choice.dims, "bool", "boolean mask of experts")
        t.tick("boolean mask of experts")
        negative = t.new(choice.dims, "bool", "masked experts")
        t.tick("masked experts")
        del boolean
    masked = masked_fill(t, choice, negative, choice.dims, "scores of the chosen groups")
    del group_mask, score_mask, chosen
    return masked


def _visit(
    t: Tape,
    shape: LayerShape,
    experts: ExpertShape,
    weights: LayerWeights,
    hidden_states: Tensor,
    scores: Tensor,
    places: Tensor,
) -> Tensor:
    run = _batched if experts.implementation == "batched_mm" else _grouped
    with t.module("experts", f"{MOE}: {experts.implementation}_experts_forward"):
        return run(t, shape, experts, weights.others, hidden_states, scores, places)


def _grouped(
    t: Tape,
    shape: LayerShape,
    experts: ExpertShape,
    weights: dict[str, Tensor],
    hidden_states: Tensor,
    scores: Tensor,
    places: Tensor,
) -> Tensor:
    """`grouped_mm_experts_forward`: rows sorted by expert; every name lives until the end, as in the original."""
    routed = places.dims
    with t.no_grad():
        sorted_experts = t.new(routed, "int64", "experts, sorted")
        perm = t.new(routed, "int64", "order of the rows")
        t.tick("sort by expert")
        token_of_row = ops.shift(t, perm, "token of each row")
    width = hidden_states.dims[-1]
    selected = ops_experts.rows(t, hidden_states, token_of_row, (*routed, width), "rows sorted by expert")
    del token_of_row
    sorted_scores = ops_experts.rows(t, ops.view(t, scores), perm, (*routed, 1), "weights, sorted")
    with t.no_grad():
        counted = t.new(routed, "int32", "experts as int32")
        t.tick("experts as int32")
        count = layer_dims(shape, "own experts")
        tokens_per_expert = t.new((count,), "int32", "tokens of each expert")
        t.tick("tokens of each expert")
        offsets = t.new((count,), "int32", "offsets")
        t.tick("offsets")
    size = layer_dims(shape, "expert ffn")
    bias = _bias_rows(t, experts, weights, "up bias", sorted_experts, (*routed, 2 if experts.gated else 1, size))
    proj_out = _grouped_linear(t, experts, selected, weights["up"], offsets, _up_dims(experts, routed, size), bias)
    proj_out = _activated(t, experts, proj_out, (*routed, size))
    bias = _bias_rows(t, experts, weights, "down bias", sorted_experts, (*routed, width))
    proj_out = _grouped_linear(t, experts, proj_out, weights["down"], offsets, (*routed, width), bias)
    weighted_out = ops.mul(t, proj_out, ops.view(t, sorted_scores), "weighed outputs")
    with t.no_grad():
        inverse = t.new(routed, "int64", "inverse order")
        t.tick("inverse order")
        counting = t.new(routed, "int64", "counting")
        t.tick("counting")
        t.tick("inverse order, filled")
        del counting
    weighted_out = ops_experts.rows(t, weighted_out, inverse, weighted_out.dims, "outputs in token order")
    final = ops_experts.sum_experts(t, weighted_out, hidden_states.dims)
    result = ops.to(t, final, hidden_states.dtype, "experts' output")
    del counted, tokens_per_expert, bias
    return result


def _up_dims(experts: ExpertShape, routed: Dims, size: str) -> Dims:
    return (*routed, 2, size) if experts.gated else (*routed, size)


def _grouped_linear(
    t: Tape, experts: ExpertShape, x: Tensor, weight: Tensor, offsets: Tensor, dims: Dims, bias: Tensor | None
) -> Tensor:
    x = ops.to(t, x, weight.dtype, "rows in the weights' dtype")
    matrices = weight if experts.transposed else ops.view(t, weight)
    out = ops_experts.grouped_mm(t, x, matrices, offsets, dims, "output of experts")
    return out if bias is None else ops_experts.add_in_place(t, out, bias)


def _bias_rows(
    t: Tape, experts: ExpertShape, weights: dict[str, Tensor], name: str, places: Tensor, dims: Dims
) -> Tensor | None:
    return ops_experts.rows(t, weights[name], places, dims, f"{name} of each row") if experts.bias else None


def _activated(t: Tape, experts: ExpertShape, proj_out: Tensor, dims: Dims) -> Tensor:
    """`_apply_gate`: activation of one half times the other, or the activation alone."""
    if not experts.gated:
        return activate(t, proj_out, experts.activation)
    if experts.clamped:
        return _clamped_gate(t, proj_out, dims)
    gate, up = split(t, proj_out, dims, dims)
    return ops.mul(t, activate(t, gate, experts.activation), up, "gated product")


def _clamped_gate(t: Tape, proj_out: Tensor, dims: Dims) -> Tensor:
    """`GptOssExperts._apply_gate`."""
    gate, up = part(t, proj_out, *dims), part(t, proj_out, *dims)
    gate = clamp(t, gate, "clamped gate")
    up = clamp(t, up, "clamped up")
    sigmoid = saves_output(t, ops.elementwise(t, gate, "scaled gate"), "sigmoid")
    glu = ops.mul(t, gate, sigmoid, "gated unit")
    del sigmoid
    return ops.mul(t, ops.shift(t, up, "up plus one"), glu, "gated product")


def _batched(
    t: Tape,
    shape: LayerShape,
    experts: ExpertShape,
    weights: dict[str, Tensor],
    hidden_states: Tensor,
    scores: Tensor,
    places: Tensor,
) -> Tensor:
    """`batched_mm_experts_forward`: the matrices of every row's expert are copied."""
    routed = places.dims
    width, size = hidden_states.dims[-1], layer_dims(shape, "expert ffn")
    selected = ops.repeat(t, hidden_states, (*routed, width), "a row for each visited expert")
    up = _up_dims(experts, routed, size)
    matrices = ops_experts.rows(t, weights["up"], places, (*up, width), "matrices of each row")
    bias = _bias_rows(t, experts, weights, "up bias", places, up)
    proj_out = _batched_linear(t, selected, matrices, up, bias)
    proj_out = _activated(t, experts, proj_out, (*routed, size))
    matrices = ops_experts.rows(t, weights["down"], places, (*routed, width, size), "matrices of each row")
    bias = _bias_rows(t, experts, weights, "down bias", places, (*routed, width))
    proj_out = _batched_linear(t, proj_out, matrices, (*routed, width), bias)
    weighted_out = ops.mul(t, proj_out, ops.view(t, scores, *scores.dims, 1), "weighed outputs")
    final = ops_experts.sum_experts(t, weighted_out, hidden_states.dims)
    return ops.to(t, final, hidden_states.dtype, "experts' output")


def _batched_linear(t: Tape, x: Tensor, matrices: Tensor, dims: Dims, bias: Tensor | None) -> Tensor:
    out = ops_experts.batched_mv(t, x, matrices, dims, "output of experts")
    return out if bias is None else ops_experts.add_in_place(t, out, bias)
