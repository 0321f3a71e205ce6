"""A mixture of experts as Megatron Core runs it: router, dispatch, the experts' grouped products, combination.

Sources: Megatron-LM `megatron/core/transformer/moe/{moe_layer,router,token_dispatcher,experts,moe_utils}.py`, as of
August 2026, without capacity limits. Tokens are taken to be spread evenly, so that a rank's experts see as many rows as
its own tokens make.
"""

from collections.abc import Callable
from dataclasses import dataclass

from planner.engine.activations import ops, ops_experts
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.functions import activate, saves_output
from planner.engine.activations.ops import Needs, Saved
from planner.engine.activations.shape import ExpertShape
from planner.engine.activations.tape import Dims, Tape, Tensor

MOE = "Megatron-LM, megatron/core/transformer/moe"
EXPERT_TOKENS = "expert tokens"
"""Of the sequence, those that the GPUs which share an expert see: all of it where they are the tensor-parallel ones."""
LOGITS_IN_GROUPS = ("grouped-softmax", "grouped-sigmoid")


@dataclass(frozen=True, slots=True)
class CoreExperts:
    """The experts of a layer, and how tokens reach them."""

    shape: ExpertShape
    gathers: bool
    """Every rank sees the tokens of all (`allgather`); otherwise they are exchanged (`alltoall`)."""
    expert_parallel: bool
    tensor_parallel: bool
    several: bool
    """A rank holds more than one expert."""


@dataclass(slots=True)
class Mixture:
    """The experts of one recorded layer: `name` is a prefix of their dimensions."""

    name: str
    experts: CoreExperts
    weights: dict[str, Tensor]

    def dims(self, name: str) -> str:
        return f"{self.name}{name}"


def make_mixture(t: Tape, name: str, experts: CoreExperts, dtype: str, *, trainable: bool) -> Mixture:
    """Router and matrices; experts have no bias under these dispatchers but their own projections'."""
    made = Mixture(name, experts, {})
    own, size, width = made.dims("own experts"), made.dims("expert ffn"), made.dims("expert width")
    up: Dims = (2, size) if experts.shape.gated else (size,)
    plan: dict[str, Dims] = {
        "router": (made.dims("experts"), "hidden"),
        "up": (own, *up, width),
        "down": (own, width, size),
    }
    if experts.shape.router_bias:
        plan["router bias"] = (made.dims("experts"),)
    if experts.shape.bias:
        plan |= {"up bias": (own, *up), "down bias": (own, width)}
    made.weights = {part: t.parameter(dims, dtype, trainable=trainable) for part, dims in plan.items()}
    return made


def mixture(t: Tape, layer: Mixture, x: Tensor, shared: Callable[[Tensor], Tensor] | None) -> Tensor:
    """`MoELayer.forward`; `shared` computes the experts that every token visits, before the router."""
    with t.module("mlp", MOE):
        aside = shared(x) if shared is not None else None
        probs, places = _route(t, layer, x)
        if layer.experts.gathers:
            output = _gathered(t, layer, x, probs, places)
        else:
            output = _exchanged(t, layer, x, probs, places)
        del probs, places
        return output if aside is None else ops.add(t, output, aside, "experts and shared expert")


def _route(t: Tape, layer: Mixture, x: Tensor) -> tuple[Tensor, Tensor]:
    """`TopKRouter.forward`: weights of all experts, zero where they were not chosen, and a map of those that were."""
    with t.module("router", f"{MOE}/router.py and moe_utils.py"):
        routing, every = layer.experts.shape.routing, (*x.dims[:-1], layer.dims("experts"))
        logits = _gating(t, layer, x, "fp32" if routing.fp32 else x.dtype)
        top = layer.dims("experts per token")
        if "sigmoid" in routing.scores:
            scores = saves_output(t, ops.to(t, logits, "fp32", "logits in fp32"), "sigmoid")
            with t.no_grad():
                chosen_places = ops_experts.top_k(t, ops.shift(t, scores, "corrected scores"), top)[1]
            chosen = ops_experts.gather(t, scores, chosen_places, "scores of the chosen")
            if routing.normalised:
                chosen = ops_experts.normalise_in_place(t, chosen)
        elif routing.normalised or routing.scores == "softmax-of-chosen":
            # A softmax over all, divided by the sum of the chosen, is one over the chosen.
            chosen, chosen_places = ops_experts.top_k(t, logits, top)
            chosen = ops.softmax(t, chosen)
        else:
            chosen, chosen_places = ops_experts.top_k(t, ops.softmax(t, logits), top)
        if routing.scaled:
            chosen = ops.elementwise(t, chosen, "scaled weights")
        chosen = ops.to(t, chosen, logits.dtype, "weights of the chosen")
        probs = ops_experts.scatter(t, chosen, chosen_places, every, "weights of all experts")
        with t.no_grad():
            counted = t.new(every, "int32", "chosen experts as numbers")
            t.tick("chosen experts as numbers")
            routing_map = t.new(every, "bool", "map of chosen experts")
            t.tick("map of chosen experts")
        del counted
        return probs, routing_map


def _gating(t: Tape, layer: Mixture, x: Tensor, dtype: str) -> Tensor:
    """`RouterGatingLinearFunction`: keeps its input as it is; in fp32, backward casts it once more."""
    weight, bias = layer.weights["router"], layer.weights.get("router bias")
    logits = t.new((*x.dims[:-1], layer.dims("experts")), dtype, "router logits")
    t.tick("router logits")
    x_dims, x_dtype, weight_dims, weight_dtype = x.dims, x.dtype, weight.dims, weight.dtype

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        wide = t.new(x_dims, dtype, "gradient of input") if needs[0] else None
        t.tick("gradient of input")
        cast = t.new(x_dims, dtype, "input in fp32") if dtype != x_dtype else None
        made = t.new(weight_dims, weight_dtype, "gradient of router") if needs[1] else None
        t.tick("gradient of router")
        del cast
        own = wide if wide is None or dtype == x_dtype else t.new(x_dims, x_dtype, "gradient of input, cast")
        t.tick("gradient of input, cast")
        own_bias = t.new(weight_dims[:1], weight_dtype, "gradient of bias") if len(needs) > 2 and needs[2] else None
        return [own, made, *([own_bias] if len(needs) > 2 else [])]

    record(t, "router gating", [x, weight, *([bias] if bias is not None else [])], [logits], backward, [x, weight])
    return logits


def _exchanged(t: Tape, layer: Mixture, x: Tensor, probs: Tensor, routing_map: Tensor) -> Tensor:
    """`MoEAlltoAllTokenDispatcher`: rows sorted by expert, sent to its rank, gathered there, sorted again, and back."""
    experts, top = layer.experts, layer.dims("experts per token")
    local: Dims = (*x.dims[:-1], top)
    hidden = x.dims[-1]
    with t.module("dispatch", f"{MOE}/token_dispatcher.py: MoEAlltoAllTokenDispatcher"):
        with t.no_grad():
            # The chosen pairs are a view of the whole sorted list, which the index of the weights keeps.
            pairs = t.new((*x.dims[:-1], layer.dims("experts")), "int64", "sorted pairs of token and expert")
            t.tick("sorted pairs of token and expert")
            order = t.new(local, "int64", "token of each row")
            t.tick("token of each row")
        row_probs = ops_experts.rows(t, probs, pairs, (*local, 1), "weights, sorted by expert")
        del pairs
        rows = ops_experts.rows(t, x, order, (*local, hidden), "rows sorted by expert")
        dispatched = rows
        if experts.expert_parallel:
            dispatched = _moved(t, rows, rows.dims, "rows from other GPUs")
            row_probs = _moved(t, row_probs, row_probs.dims, "weights from other GPUs")
        arrived, row_probs = _arrived(t, experts, dispatched, row_probs)
    output = _experts(t, layer, arrived, row_probs)
    del arrived
    with t.module("combine", f"{MOE}/token_dispatcher.py: MoEAlltoAllTokenDispatcher"):
        if experts.several:
            output = _moved(t, output, output.dims, "outputs sorted by GPU")
        if experts.tensor_parallel:
            output = _moved(t, output, (*local, hidden), "sums of outputs")
        del dispatched, rows
        if experts.expert_parallel:
            output = _moved(t, output, output.dims, "outputs from other GPUs")
        return _unpermuted(t, output, order, x.dims, routing_map)


def _arrived(t: Tape, experts: CoreExperts, rows: Tensor, row_probs: Tensor) -> tuple[Tensor, Tensor]:
    """`dispatch_postprocess`: tensor-parallel ranks see each other's rows, then these are sorted by expert."""
    if experts.tensor_parallel:
        rows, row_probs = (
            _moved(t, x, (x.dims[0], EXPERT_TOKENS, *x.dims[2:]), f"{name} of all tensor-parallel GPUs")
            for x, name in ((rows, "rows"), (row_probs, "weights"))
        )
    if experts.several:
        rows = _moved(t, rows, rows.dims, "rows sorted by own expert")
        row_probs = _moved(t, row_probs, row_probs.dims, "weights sorted by own expert")
    return rows, row_probs


def _gathered(t: Tape, layer: Mixture, x: Tensor, probs: Tensor, routing_map: Tensor) -> Tensor:
    """`MoEAllGatherTokenDispatcher`: every rank sees all tokens and picks those of its own experts."""
    experts, own = layer.experts, layer.dims("own experts")
    spread = experts.expert_parallel or experts.tensor_parallel
    seen: Dims = (x.dims[0], EXPERT_TOKENS, "expert ranks") if spread else x.dims[:-1]
    rows_dims: Dims = (x.dims[0], EXPERT_TOKENS, layer.dims("experts per token"))
    with t.module("dispatch", f"{MOE}/token_dispatcher.py: MoEAllGatherTokenDispatcher"):
        whole = x
        if spread:
            every: Dims = (*seen, layer.dims("experts"))
            with t.no_grad():
                every_map = t.new(every, "bool", "map of all GPUs' tokens")
                t.tick("map of all GPUs' tokens")
            probs = _moved(t, probs, every, "weights of all GPUs' tokens")
            whole = _into_buffer(t, x, (*seen, x.dims[-1]))
        else:
            every_map = routing_map
        with t.no_grad():
            own_map = t.new((*seen, own), "bool", "map of own experts")
            t.tick("map of own experts")
            order = t.new(rows_dims, "int64", "token of each row")
            t.tick("token of each row")
        own_probs = _moved(t, probs, (*seen, own), "weights of own experts")
        rows = ops_experts.rows(t, whole, order, (*rows_dims, x.dims[-1]), "rows sorted by expert")
        turned = _moved(t, own_probs, own_probs.dims, "weights of own experts, turned")
        row_probs = ops_experts.rows(t, turned, own_map, (*rows_dims, 1), "weights, sorted by expert")
        del own_probs, turned, every_map
    output = _experts(t, layer, rows, row_probs)
    del rows
    with t.module("combine", f"{MOE}/token_dispatcher.py: MoEAllGatherTokenDispatcher"):
        output = _unpermuted(t, output, order, (*seen, x.dims[-1]), own_map)
        return _moved(t, output, x.dims, "sums of outputs") if spread else output


def _experts(t: Tape, layer: Mixture, rows: Tensor, row_probs: Tensor) -> Tensor:
    """`TEGroupedMLP.forward`: the weights are multiplied in behind the activation."""
    shape, size = layer.experts.shape, layer.dims("expert ffn")
    with t.module("experts", f"{MOE}/experts.py: TEGroupedMLP"):
        counts = t.new((layer.dims("own experts"),), "int64", "rows of each expert")
        up = (*rows.dims[:-1], 2, size) if shape.gated else (*rows.dims[:-1], size)
        inner = ops_experts.grouped_mm(t, rows, layer.weights["up"], counts, up, "inner rows")
        if shape.bias:
            inner = ops_experts.add_in_place(t, inner, layer.weights["up bias"])
        if shape.gated:
            active = _weighted_gate(t, inner, row_probs, (*rows.dims[:-1], size))
        else:
            weighted = ops.mul(t, activate(t, inner, shape.activation), row_probs, "activation, weighed")
            active = ops.to(t, weighted, inner.dtype, "activation, weighed")
            del weighted
        del inner
        width = layer.dims("expert width")
        output = ops_experts.grouped_mm(
            t, active, layer.weights["down"], counts, (*rows.dims[:-1], width), "outputs of experts"
        )
        return output if not shape.bias else ops_experts.add_in_place(t, output, layer.weights["down bias"])


def _weighted_gate(t: Tape, inner: Tensor, row_probs: Tensor, dims: Dims) -> Tensor:
    """`weighted_bias_swiglu_impl`: one kernel that keeps its input and the weights."""
    active = t.new(dims, inner.dtype, "gated product, weighed")
    t.tick("gated product, weighed")
    inner_dims, probs_dims, probs_dtype = inner.dims, row_probs.dims, row_probs.dtype

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        made = t.new(inner_dims, saved[0].dtype, "gradient of gated product")
        t.tick("gated product, backward")
        own = t.new(probs_dims, probs_dtype, "gradient of weights") if needs[1] else None
        t.tick("gradient of weights")
        return [made, own]

    record(t, "weighted swiglu", [inner, row_probs], [active], backward, [inner, row_probs])
    return active


def _unpermuted(t: Tape, rows: Tensor, order: Tensor, dims: Dims, kept_map: Tensor) -> Tensor:
    """`unpermute`: rows are added into zeros; the dispatcher goes on holding the map."""
    output = t.new(dims, rows.dtype, "outputs in token order")
    t.tick("outputs in token order")
    rows_dims = rows.dims

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        made = t.new(rows_dims, gradient.dtype, "gradient of rows")
        t.tick("gradient of rows")
        return [made]

    record(t, "unpermute", [rows], [output], backward, [order, kept_map])
    return output


def _moved(t: Tape, x: Tensor, dims: Dims, label: str) -> Tensor:
    """Sent, gathered or sorted: a new tensor, and another one for its gradient. Nothing is kept."""
    out = t.new(dims, x.dtype, label)
    t.tick(label)
    source = x.dims

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        made = t.new(source, gradient.dtype, f"gradient of {label}")
        t.tick(f"gradient of {label}")
        return [made]

    record(t, "exchange", [x], [out], backward)
    return out


def _into_buffer(t: Tape, x: Tensor, dims: Dims) -> Tensor:
    """Gathered into the global buffer, which is there before and stays (`gather_from_sequence_parallel_region`)."""
    whole = x.handle(dims, view=True)
    source = x.dims

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        made = t.new(source, gradient.dtype, "scattered gradient")
        t.tick("scattered gradient")
        return [made]

    record(t, "gather", [x], [whole], backward)
    return whole
