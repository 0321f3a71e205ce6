"""A language model as LitGPT and Fabric run it, with their loop: logits in fp32, head and loss in chunks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from planner.engine.activations import ops
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.blocks import Linear, layer_dims, linear_weights, make_linear, slots_of, token_ids
from planner.engine.activations.checkpoint import checkpointed
from planner.engine.activations.decoders import attention_shape, attention_symbols, only_stack
from planner.engine.activations.functions import saves_output
from planner.engine.activations.kernels import kernel
from planner.engine.activations.litgpt import LitShape, LitWeights, adapted, norm, run_block
from planner.engine.activations.loss import over_chunks
from planner.engine.activations.norms import NormWeights, make_norm
from planner.engine.activations.ops_shape import split
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.setting import Found, Loads, Setting
from planner.engine.activations.tape import Tape, Tensor
from planner.engine.activations.versions import keeps_inputs_of_4bit_products, rounds_before_the_weight
from planner.engine.rounding import smaller
from planner.engine.term import Factor
from planner.model.spec import Attention, DenseFeedForward, LayerGroup, ModelSpec, Norm

FABRIC = "Lightning 2, fabric/plugins/precision/half.py: convert_output casts what the model returns to fp32"
LOOP = "litgpt 0.5, litgpt/finetune/lora.py: fit"
LOSS = "litgpt 0.5, litgpt/utils.py: chunked_cross_entropy"
CHUNK = 128
"""Rows of whole logits that the loss takes at a time, unless it is told otherwise."""
PARTS = ("q", "k", "v")


@dataclass(slots=True)
class LitLayer:
    """One recorded block and the slot it stands for."""

    slot: str
    shape: LitShape
    weights: LitWeights


@dataclass(frozen=True, slots=True)
class LitBody:
    """Token table, blocks, final norm and head; table and head are two tensors, even where a checkpoint ties them."""

    layers: tuple[LitShape, ...]
    norm: Norm
    scaled_embedding: bool
    softcap: bool
    keeps_inputs: bool
    """4-bit products hold their inputs as long as the graph lives."""
    rounds_first: bool
    """RMS norms cast to 16 bits before they multiply by their weight."""

    def build(self, t: Tape, recipe: Recipe) -> "LitModel":
        full = recipe.lora is None
        table = t.parameter(("table rows", "hidden"), recipe.weight_dtype, trainable=full)
        head = make_linear(t, recipe, "lm_head", ("hidden",), ("vocabulary",), False, rows=("table rows",))
        head.quantized = recipe.quantized_base
        layers = [
            LitLayer(slot, shape, _weights(t, recipe.for_kind(index), shape))
            for index, shape in enumerate(self.layers)
            for slot in slots_of(index, shape.layer.copies)
        ]
        return LitModel(self, recipe, table, layers, make_norm(t, recipe, self.norm), head)


@dataclass(slots=True)
class LitModel:
    """The weights of a recorded model."""

    body: LitBody
    recipe: Recipe
    table: Tensor
    layers: list[LitLayer]
    norm: NormWeights
    head: Linear
    previous: list[Tensor] = field(default_factory=list)
    """What the loop still holds of the step before: its logits, until the new ones are there, and with `loss` its
    graph, whose 4-bit products keep their inputs as plain attributes."""

    def inputs(self, t: Tape) -> dict[str, Tensor]:
        if self.recipe.training:
            with t.module("step before", f"{LOOP}: `logits` and `loss` are still bound"):
                self._hold_previous(t)
        return {"ids": token_ids(t, "input ids"), "labels": token_ids(t, "labels")}

    def _hold_previous(self, t: Tape) -> None:
        tokens, dtype = ("batch", "sequence"), t.autocast or self.recipe.weight_dtype
        self.previous = [t.new((*tokens, "vocabulary"), "fp32", "logits")]
        if not (self.recipe.quantized_base and self.body.keeps_inputs):
            return
        for layer in self.layers:
            shape = layer.shape
            linears = layer.weights.linears
            read = [linears["qkv"], linears["o_proj"], linears["down_proj"]]
            read += [] if shape.shared_norm else [linears["up_proj"]]
            with t.layer(layer.slot):
                self.previous += [t.new((*tokens, *each.inputs), dtype, f"input of {each.role}") for each in read]

    def train(self, t: Tape, inputs: dict[str, Tensor]) -> tuple[Tensor, object]:
        hidden_states = self._hidden_states(t, inputs["ids"])
        logits = self._logits(t, hidden_states)
        whole = self.recipe.loss == "full_logits"
        with t.module("fabric", FABRIC):
            logits = ops.to(t, logits, "fp32", "logits in fp32") if whole else _list_in_fp32(t, logits)
        del self.previous[:1]
        with t.module("loss", LOSS):
            pieces = split(t, logits, logits.dims)[0] if whole else logits
            loss = over_chunks(t, pieces, upcast=False, chunk=CHUNK if whole else "head chunk")
            del pieces
        self.previous.clear()
        return loss, logits

    def infer(self, t: Tape, inputs: dict[str, Tensor]) -> object:
        return self._logits(t, self._hidden_states(t, inputs["ids"]))

    def weights(self) -> Iterable[tuple[str, str, Tensor]]:
        yield ("", "wte", self.table)
        yield from (("", "ln_f", weight) for weight in self.norm.tensors())
        yield from (("", "lm_head", weight) for weight in linear_weights(self.head))
        for layer in self.layers:
            for role, each in layer.weights.linears.items():
                yield from ((layer.slot, role, weight) for weight in linear_weights(each))
            for name, one in layer.weights.norms.items():
                yield from ((layer.slot, name, weight) for weight in one.tensors())

    def _hidden_states(self, t: Tape, ids: Tensor) -> Tensor:
        x = ops.embedding(t, self.table, ("batch", "sequence", "hidden"), ids)
        if self.body.scaled_embedding:
            x = ops.elementwise(t, x, "scaled embedding")
        turned = layer_dims(self.layers[0].shape.layer, "rotated")
        cos, sin = (t.parameter((1, "sequence", turned), "fp32", trainable=False) for _ in range(2))
        if self.recipe.needs_input_gradient(x.requires_grad):
            x = t.leaf(x)
        for layer in self.layers:
            with t.layer(layer.slot), t.module("block"):
                x = self._run(t, layer, x, cos, sin)
        return norm(t, self.norm, x, self.body.rounds_first)

    def _run(self, t: Tape, layer: LitLayer, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        def forward(x: Tensor) -> Tensor:
            return run_block(t, layer.shape, layer.weights, x, cos, sin)

        return checkpointed(t, self.recipe.checkpointing, forward, x)

    def _logits(self, t: Tape, hidden_states: Tensor) -> Tensor:
        logits = adapted(t, self.head, hidden_states, self.body.keeps_inputs)
        if self.body.softcap:
            logits = saves_output(t, ops.elementwise(t, logits, "logits over the cap"), "tanh")
            logits = ops.elementwise(t, logits, "capped logits")
        frozen = not self.head.weight.requires_grad
        return self._cast_again(t, logits) if t.autocast and frozen and self.recipe.loss == "chunked" else logits

    def _cast_again(self, t: Tape, logits: Tensor) -> Tensor:
        """The head runs once per chunk, and autocast caches no copy of a frozen weight: each chunk keeps its own."""
        assert t.autocast is not None
        with t.module("lm_head"):
            copies = t.new(
                ("further chunks", *self.head.weight.dims), t.autocast, "weight cast by autocast, again", "weight copy"
            )
            t.tick("weight cast by autocast, again")
            out = logits.handle(view=True)
            record(t, "further chunks of the head", [logits], [out], _pass_on, [copies])
            return out


def _list_in_fp32(t: Tape, logits: Tensor) -> Tensor:
    """Fabric casts a list piece by piece; in backward each piece's fp32 gradient dies as soon as it is cast."""
    out = t.new(logits.dims, "fp32", "logits in fp32")
    t.tick("logits in fp32")
    dims, dtype = logits.dims, logits.dtype

    def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
        piece = t.new(("head chunk", "vocabulary"), dtype, "gradient of one chunk, cast")
        t.tick("gradient of the first chunk, cast")
        gradients.clear()
        whole = t.new(dims, dtype, "gradient of logits, cast")
        t.tick("gradient of the last chunk, cast")
        del piece
        return [whole]

    record(t, "to", [logits], [out], backward)
    return out


def _pass_on(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
    gradient = gradients[0]
    assert gradient is not None
    return [gradient.handle()]


def _weights(t: Tape, recipe: Recipe, shape: LitShape) -> LitWeights:
    layer = shape.layer
    heads, head_dim, ffn = (layer_dims(layer, name) for name in ("heads", "head dim", "ffn"))
    hidden = ("hidden",)
    linears = {
        "o_proj": make_linear(t, recipe, "o_proj", (heads, head_dim), hidden, layer.output_bias),
        "up_proj": make_linear(t, recipe, "up_proj", hidden, (ffn,), layer.mlp_bias),
        "down_proj": make_linear(t, recipe, "down_proj", (ffn,), hidden, layer.mlp_bias),
        "qkv": make_linear(t, recipe, "qkv", hidden, (layer_dims(layer, "qkv"),), layer.qkv_bias),
    }
    if layer.gated:
        linears["gate_proj"] = make_linear(t, recipe, "gate_proj", hidden, (ffn,), layer.mlp_bias)
    if recipe.lora is not None and shape.adapted:
        linears["qkv"].adapter = (
            t.parameter((len(shape.adapted), "rank", *hidden), recipe.lora.dtype, trainable=True),
            t.parameter(("adapted outputs", "rank"), recipe.lora.dtype, trainable=True),
        )
        linears["qkv"].adapter_dropout = recipe.lora.dropout
    names = ["norm_1", *([] if shape.shared_norm else ["norm_2"])]
    names += ["post_attention_norm", "post_mlp_norm"] if shape.sandwich else []
    norms = {name: make_norm(t, recipe, shape.layer_norm) for name in names}
    return LitWeights(linears, norms)


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """Any decoder with softmax attention and a dense feed-forward, which LitGPT's one class covers."""
    groups = only_stack(spec)
    if groups is None or not all(_is_told(group) for group in groups):
        return None
    shapes = tuple(_shape(index, group, setting) for index, group in enumerate(groups))
    symbols: list[Factor] = []
    for shape, group in zip(shapes, groups, strict=True):
        mixer = group.mixer
        assert isinstance(mixer, Attention)
        symbols += attention_symbols(shape.layer, group, setting)
        sizes = {"q": mixer.heads * mixer.head_dim, "k": mixer.kv_heads * mixer.head_dim}
        sizes["v"] = sizes["k"]
        symbols.append(Factor(f"{shape.layer.name}qkv", sum(sizes.values()), "queries, keys and values"))
        symbols.append(Factor("adapted outputs", sum(sizes[name] for name in shape.adapted)))
    embedding, head = spec.stack.embedding, spec.head
    assert embedding is not None
    assert head is not None
    body = LitBody(
        shapes, groups[-1].norm, embedding.scaled, head.softcap, shapes[0].keeps_inputs, shapes[0].rounds_first
    )
    counts = {str(index): group.count for index, group in enumerate(groups)}
    return Found(body, tuple(symbols), counts, _head_chunk)


def _head_chunk(loads: Loads) -> tuple[Factor, ...]:
    """The head takes so many positions at a time of every sequence of the batch."""
    rows = smaller(loads.batch * loads.loss_chunk, loads.batch * loads.sequence)
    return (Factor("head chunk", rows, "positions of a chunk in every sequence"),)


def _is_told(group: LayerGroup) -> bool:
    mixer, feed_forward = group.mixer, group.feed_forward
    return isinstance(mixer, Attention) and isinstance(feed_forward, DenseFeedForward) and group.arrangement != "post"


def _shape(index: int, group: LayerGroup, setting: Setting) -> LitShape:
    layer = attention_shape(index, group, setting)
    mixer = group.mixer
    assert isinstance(mixer, Attention)
    whole = kernel(
        setting.attention,
        setting.compute_dtype,
        masked=False,
        grouped_queries=False,
        single_kv_head=False,
        head_dim=mixer.head_dim,
    )
    return LitShape(
        replace(
            layer,
            kernel=whole,
            masked=False,
            rotates_all=mixer.rotary_share == 1.0,
            # `torch.cat` joins the rotated part and the rest head by head, and the kernel's output takes their order.
            heads_first=True,
        ),
        parallel=group.arrangement == "parallel",
        shared_norm=group.arrangement == "parallel" and group.norms == 1,
        sandwich=group.arrangement == "sandwich",
        softcap=mixer.softcap,
        adapted=frozenset(part for part in PARTS if f"{part}_proj" in setting.adapted),
        layer_norm=group.norm,
        keeps_inputs=keeps_inputs_of_4bit_products(setting.version),
        rounds_first=rounds_before_the_weight(setting.version),
    )
