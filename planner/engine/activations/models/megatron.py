"""A decoder as Megatron Core runs it with fused kernels: norms, bias and activation, dropout and sum, softmax.

Source: Megatron-LM `megatron/core/transformer/{transformer_layer,attention,dot_product_attention,mlp}.py` and
`core/fusions`; what is kept adds up to Korthikanti et al. (arXiv:2205.05198), section 4: 34 sbh + 5 as²b per layer of
a GPT with dropout in 16 bits, divided as in its table 2.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from planner.engine.activations import ops
from planner.engine.activations.attention import attend
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.blocks import (
    Linear,
    kernel_rms_norm,
    layer_dims,
    linear,
    linear_weights,
    make_linear,
    slots_of,
    token_ids,
)
from planner.engine.activations.checkpoint import checkpoint, checkpointed
from planner.engine.activations.core_experts import EXPERT_TOKENS, CoreExperts, Mixture, make_mixture, mixture
from planner.engine.activations.decoders import attention_shape, attention_symbols, only_stack
from planner.engine.activations.functions import saves_output
from planner.engine.activations.models.megatron_experts import core_experts, has_told_experts, with_dense
from planner.engine.activations.models.moe import expert_symbols
from planner.engine.activations.norms import NormWeights, layer_norm, make_norm
from planner.engine.activations.ops import Needs, Saved
from planner.engine.activations.ops_shape import split
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.setting import Found, Setting, divided
from planner.engine.activations.shape import LayerShape
from planner.engine.activations.tape import Tape, Tensor
from planner.engine.activations.tensor_parallel import scatter
from planner.engine.term import Factor
from planner.model.spec import Attention, DenseFeedForward, LayerGroup, MixtureOfExperts, ModelSpec, Norm, Table

CORE = "Megatron-LM, megatron/core/transformer"
LOSS = "Megatron-LM, megatron/core/tensor_parallel/cross_entropy.py: the softmax becomes the gradient in place"
WHOLE, PART = "sequence", "sequence shard"


@dataclass(frozen=True, slots=True)
class CoreShape:
    """One kind of layer."""

    layer: LayerShape
    norm: Norm
    rotary: bool
    sequence_parallel: bool
    experts: CoreExperts | None = None


@dataclass(slots=True)
class CoreLayer:
    """One recorded layer and the slot it stands for."""

    slot: str
    shape: CoreShape
    linears: dict[str, Linear]
    norms: dict[str, NormWeights]
    mixture: Mixture | None


@dataclass(frozen=True, slots=True)
class CoreBody:
    """Token table, layers, final norm and head."""

    layers: tuple[CoreShape, ...]
    tied: bool
    positions: bool
    """Whether a table of positions is added to the tokens'."""

    def build(self, t: Tape, recipe: Recipe) -> "CoreModel":
        table = t.parameter(("table rows", "hidden"), recipe.weight_dtype, trainable=recipe.lora is None)
        head = make_linear(t, recipe, "lm_head", ("hidden",), ("vocabulary",), False, rows=("table rows",))
        if self.tied:
            head.weight = table
        places = t.parameter(("positions", "hidden"), recipe.weight_dtype, trainable=recipe.lora is None)
        layers = [
            _make_layer(t, recipe.for_kind(index), shape, slot)
            for index, shape in enumerate(self.layers)
            for slot in slots_of(index, shape.layer.copies)
        ]
        return CoreModel(self, recipe, table, places, layers, make_norm(t, recipe, self.layers[-1].norm), head)


def _make_layer(t: Tape, recipe: Recipe, shape: CoreShape, slot: str) -> CoreLayer:
    layer, hidden = shape.layer, ("hidden",)
    heads, head_dim, ffn = (layer_dims(layer, name) for name in ("heads", "head dim", "ffn"))
    inner = (2, ffn) if layer.gated else (ffn,)
    linears = {
        "qkv": make_linear(t, recipe, "qkv", hidden, (layer_dims(layer, "qkv"),), layer.qkv_bias),
        "o_proj": make_linear(t, recipe, "o_proj", (heads, head_dim), hidden, layer.output_bias),
    }
    experts, made = shape.experts, None
    if experts is None or experts.shape.shared:
        linears["up_proj"] = make_linear(t, recipe, "up_proj", hidden, inner, layer.mlp_bias)
        linears["down_proj"] = make_linear(t, recipe, "down_proj", (ffn,), hidden, layer.mlp_bias)
    if experts is not None and experts.shape.shared_gate:
        linears["shared_expert_gate"] = make_linear(t, recipe, "shared_expert_gate", hidden, (1,), False)
    if experts is not None:
        made = make_mixture(t, layer.name, experts, recipe.weight_dtype, trainable=recipe.lora is None)
    norms = {name: make_norm(t, recipe, shape.norm) for name in ("input", "mlp")}
    return CoreLayer(slot, shape, linears, norms, made)


@dataclass(slots=True)
class CoreModel:
    """The weights of a recorded model."""

    body: CoreBody
    recipe: Recipe
    table: Tensor
    places: Tensor
    layers: list[CoreLayer]
    norm: NormWeights
    head: Linear

    def inputs(self, t: Tape) -> dict[str, Tensor]:
        held = {"ids": token_ids(t, "input ids"), "labels": token_ids(t, "labels")}
        if any(_fills_buffer(shape.experts) for shape in self.body.layers):
            dims = ("batch", EXPERT_TOKENS, "expert ranks", "hidden")
            with t.module("global buffer", "Megatron-LM, megatron/core/utils.py: GlobalMemoryBuffer"):
                held["buffer"] = t.new(dims, self.recipe.weight_dtype, "tokens of all expert-parallel GPUs")
        return held

    def train(self, t: Tape, inputs: dict[str, Tensor]) -> tuple[Tensor, object]:
        logits = _column(t, self.head, self._hidden_states(t, inputs["ids"]), self.layers[0].shape)
        return _cross_entropy(t, logits), None

    def infer(self, t: Tape, inputs: dict[str, Tensor]) -> object:
        return _column(t, self.head, self._hidden_states(t, inputs["ids"]), self.layers[0].shape)

    def weights(self) -> Iterable[tuple[str, str, Tensor]]:
        yield ("", "embedding", self.table)
        if self.body.positions:
            yield ("", "position embedding", self.places)
        yield from (("", "final norm", weight) for weight in self.norm.tensors())
        yield from (("", "lm_head", weight) for weight in linear_weights(self.head))
        for layer in self.layers:
            for role, each in layer.linears.items():
                yield from ((layer.slot, role, weight) for weight in linear_weights(each))
            for name, one in layer.norms.items():
                yield from ((layer.slot, name, weight) for weight in one.tensors())
            if layer.mixture is not None:
                yield from ((layer.slot, name, weight) for name, weight in layer.mixture.weights.items())

    def _hidden_states(self, t: Tape, ids: Tensor) -> Tensor:
        shape = self.layers[0].shape
        sequence = PART if shape.sequence_parallel else WHOLE
        dims = ("batch", sequence, "hidden")
        x = ops.embedding(t, self.table, dims, ids)
        if self.body.positions:
            # `LanguageModelEmbedding.forward` looks up one row of positions for the whole batch.
            x = ops.add(t, x, ops.embedding(t, self.places, (1, *dims[1:]), ids), "embedding sum")
        if shape.layer.hidden_dropout:
            x = ops.dropout(t, x)
        if self.recipe.needs_input_gradient(x.requires_grad):
            x = t.leaf(x)
        for layer in self.layers:
            with t.layer(layer.slot), t.module("layer", f"{CORE}/transformer_layer.py"):
                x = self._run(t, layer, x)
        return _norm(t, self.norm, x, "final norm")

    def _run(self, t: Tape, layer: CoreLayer, x: Tensor) -> Tensor:
        return checkpointed(t, self.recipe.checkpointing, lambda x: _layer(t, layer, x), x)


def _layer(t: Tape, layer: CoreLayer, x: Tensor) -> Tensor:
    normed = _norm(t, layer.norms["input"], x, "input norm")
    x = _summed(t, layer.shape, _attention(t, layer, normed), x)
    normed = _norm(t, layer.norms["mlp"], x, "mlp norm")
    return _summed(t, layer.shape, _feed_forward(t, layer, normed), x)


def _feed_forward(t: Tape, layer: CoreLayer, x: Tensor) -> Tensor:
    if layer.mixture is None:
        return _mlp(t, layer, x)
    shared = layer.mixture.experts.shape.shared
    return mixture(t, layer.mixture, x, (lambda x: _shared_experts(t, layer, x)) if shared else None)


def _shared_experts(t: Tape, layer: CoreLayer, x: Tensor) -> Tensor:
    """`SharedExpertMLP.forward`: an MLP whose sum over tensor-parallel ranks is scattered, and perhaps a gate."""
    output = _mlp(t, layer, x)
    if layer.shape.sequence_parallel:
        output = scatter(t, output, sequence_parallel=True)
    gate = layer.linears.get("shared_expert_gate")
    if gate is None:
        return output
    return ops.mul(t, output, saves_output(t, linear(t, gate, x), "sigmoid"), "shared expert, weighed")


def _fills_buffer(experts: CoreExperts | None) -> bool:
    """Whether tokens are gathered, into a buffer that stays."""
    return experts is not None and experts.gathers and (experts.expert_parallel or experts.tensor_parallel)


def _norm(t: Tape, weights: NormWeights, x: Tensor, name: str) -> Tensor:
    if weights.norm.kind == "rmsnorm" and weights.weight is not None:
        return kernel_rms_norm(t, weights.weight, x, name)
    with t.module(name):
        return layer_norm(t, x, weights.weight, weights.bias)


def _column(t: Tape, layer: Linear, x: Tensor, shape: CoreShape) -> Tensor:
    """A column-parallel product; with sequence parallelism it gathers the sequence, here and again in backward.

    Only this rank's part of the input is kept (`tensor_parallel/layers.py`:
    `LinearWithGradAccumulationAndAsyncCommunication`).
    """
    if not shape.sequence_parallel:
        return linear(t, layer, x)
    whole_dims = (x.dims[0], WHOLE, *x.dims[2:])
    with t.module(layer.role):
        whole = t.new(whole_dims, x.dtype, "gathered sequence")
        out = t.new((x.dims[0], WHOLE, *layer.outputs), x.dtype, "output")
        t.tick("output")
        del whole
        part_dims, weight_dims, dtype = x.dims, layer.weight.dims, x.dtype

        def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
            again = t.new(whole_dims, dtype, "gathered sequence")
            made = t.new(whole_dims, dtype, "gradient of gathered input")
            t.tick("gradient of gathered input")
            weight = t.new(weight_dims, dtype, "gradient of weight") if needs[1] else None
            part = t.new(part_dims, dtype, "scattered gradient") if needs[0] else None
            t.tick("gradient of weight")
            del again, made
            return [part, weight, *(gradients[:1] if len(needs) > 2 else ())]

        sources = [x, layer.weight, *([layer.bias] if layer.bias is not None else [])]
        record(t, "column-parallel product", sources, [out], backward, [x, layer.weight])
        return out


def _summed(t: Tape, shape: CoreShape, out: Tensor, residual: Tensor) -> Tensor:
    """`bias_dropout_add`: one kernel whose backward needs the mask alone."""
    with t.module("bias, dropout and sum", "Megatron-LM, megatron/core/fusions/fused_bias_dropout.py"):
        dims = residual.dims
        total = t.new(dims, residual.dtype, "residual sum")
        mask = [t.new(dims, "bool", "dropout mask")] if shape.layer.hidden_dropout else []
        t.tick("residual sum")

        def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
            gradient = gradients[0]
            assert gradient is not None
            own = t.new(dims, gradient.dtype, "gradient of output") if saved else gradient.handle()
            t.tick("gradient of output")
            return [own.handle(out_dims), gradient.handle()]

        out_dims = out.dims
        record(t, "bias_dropout_add", [out, residual], [total], backward, mask)
        return total


def _attention(t: Tape, layer: CoreLayer, x: Tensor) -> Tensor:
    shape = layer.shape.layer
    heads, kv_heads, head_dim = (layer_dims(shape, name) for name in ("heads", "kv heads", "head dim"))
    with t.module("attention", f"{CORE}/attention.py"):
        mixed = _column(t, layer.linears["qkv"], x, layer.shape)
        few = ("batch", WHOLE, kv_heads, head_dim)
        query, key, value = split(t, mixed, ("batch", WHOLE, heads, head_dim), few, few)
        del mixed
        if layer.shape.rotary:
            query, key = (_rotated(t, each) for each in (query, key))
        if shape.kernel != "eager":
            output = attend(t, shape, query, key, value, None)
        elif t.techniques.selective == "core-attention":
            output = checkpoint(t, lambda q, k, v: _core(t, shape, q, k, v), query, key, value)
        else:
            output = _core(t, shape, query, key, value)
        return linear(t, layer.linears["o_proj"], ops.view(t, output))


def _rotated(t: Tape, x: Tensor) -> Tensor:
    """Fused rotary embedding: a new tensor, of which backward needs the table alone."""
    return ops.elementwise(t, x, "rotated")


def _core(t: Tape, shape: LayerShape, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """`DotProductAttention.forward`: scores, fused scale, mask and softmax in 16 bits, dropout."""
    with t.module("core attention", f"{CORE}/dot_product_attention.py"):
        if shape.grouped_queries:
            dims = (*key.dims[:2], layer_dims(shape, "heads"), key.dims[-1])
            key, value = (ops.repeat(t, each, dims, "repeated to all heads") for each in (key, value))
        scores_dims = ("batch", layer_dims(shape, "heads"), WHOLE, WHOLE)
        scores = ops.matmul(t, query, key, scores_dims, "scores")
        weights = ops.softmax(t, scores, scores.dtype)
        del scores
        if shape.attention_dropout:
            weights = ops.dropout(t, weights)
        return ops.matmul(t, weights, value, query.dims, "output")


def _mlp(t: Tape, layer: CoreLayer, x: Tensor) -> Tensor:
    """`MLP.forward` with the bias fused into the activation, which keeps its input."""
    shape = layer.shape.layer
    with t.module("mlp", f"{CORE}/mlp.py"):
        inner = _column(t, layer.linears["up_proj"], x, layer.shape)
        dims = ("batch", WHOLE, layer_dims(shape, "ffn"))
        active = t.new(dims, inner.dtype, f"bias and {shape.activation}")
        t.tick("bias and activation")
        inner_dims = inner.dims

        def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
            made = t.new(inner_dims, saved[0].dtype, "gradient of activation")
            t.tick("bias and activation, backward")
            return [made]

        record(t, "bias and activation", [inner], [active], backward, [inner])
        del inner
        return linear(t, layer.linears["down_proj"], active)


def _cross_entropy(t: Tape, logits: Tensor) -> Tensor:
    """`vocab_parallel_cross_entropy`: logits in fp32, whose exponentials are kept and become the gradient."""
    with t.module("loss", LOSS):
        exponentials = t.new(logits.dims, "fp32", "exponentials of logits")
        t.tick("exponentials of logits")
        loss = t.new((), "fp32", "loss")
        t.tick("loss")
        dtype = logits.dtype

        def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
            made = t.new(saved[0].dims, dtype, "gradient of logits")
            t.tick("loss backward")
            return [made]

        record(t, "vocabulary-parallel cross entropy", [logits], [loss], backward, [exponentials])
        return loss


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """Decoders with softmax attention and a dense feed-forward or experts, one after the other."""
    groups = only_stack(spec)
    if groups is None or not all(_is_told(group) for group in groups):
        return None
    shapes = tuple(_shape(index, group, setting) for index, group in enumerate(groups))
    symbols: list[Factor] = []
    for shape, group in zip(shapes, groups, strict=True):
        mixer = group.mixer
        assert isinstance(mixer, Attention)
        symbols += attention_symbols(shape.layer, with_dense(group), setting)
        if isinstance(group.feed_forward, MixtureOfExperts):
            symbols += expert_symbols(shape.layer.name, group.feed_forward, spec.stack.hidden_size, setting)
        joined = (mixer.heads + 2 * mixer.kv_heads) * mixer.head_dim
        symbols.append(Factor(f"{shape.layer.name}qkv", -(-joined // setting.tensor_parallel), "of this rank's heads"))
    assert spec.head is not None
    tables = [part for part in spec.stack.before if isinstance(part, Table)]
    symbols += [divided("vocabulary", spec.head.outputs, setting.tensor_parallel)]
    symbols += [Factor("positions", table.rows) for table in tables[:1]]
    body = CoreBody(shapes, spec.head.tied, bool(tables))
    return Found(body, tuple(symbols), {str(index): group.count for index, group in enumerate(groups)})


def _is_told(group: LayerGroup) -> bool:
    mixer, feed_forward = group.mixer, group.feed_forward
    plain = isinstance(mixer, Attention) and (isinstance(feed_forward, DenseFeedForward) or has_told_experts(group))
    return plain and group.arrangement == "pre" and group.cross_attention is None


def _shape(index: int, group: LayerGroup, setting: Setting) -> CoreShape:
    layer = attention_shape(index, with_dense(group), setting)
    assert isinstance(group.mixer, Attention)
    unmasked = replace(layer, kernel="flash" if layer.kernel != "eager" else "eager", masked=False)
    return CoreShape(
        unmasked,
        group.norm,
        group.mixer.rotary_share > 0,
        setting.sequence_parallel and setting.tensor_parallel > 1,
        core_experts(group, setting),
    )
