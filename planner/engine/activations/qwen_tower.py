"""The vision towers of Qwen2-VL and Qwen2.5-VL: patches of any number, rotary positions, and a merger of 2 x 2 patches.

Sources: transformers 5.24, `models/qwen2_vl/modeling_qwen2_vl.py: Qwen2VisionTransformerPretrainedModel.forward`,
`models/qwen2_5_vl/modeling_qwen2_5_vl.py: Qwen2_5_VisionTransformerPretrainedModel.forward`, whose patches are sorted
by window; attention runs window by window and its outputs are joined.
"""

from dataclasses import dataclass

from planner.engine.activations import ops
from planner.engine.activations.attention import attend
from planner.engine.activations.blocks import Linear, layer_dims, linear, rotate, slots_of
from planner.engine.activations.checkpoint import checkpointed
from planner.engine.activations.functions import activate
from planner.engine.activations.norms import NormWeights, normalise
from planner.engine.activations.ops_conv import convolution
from planner.engine.activations.ops_shape import cat, gathered, split
from planner.engine.activations.projectors import FEATURES, IMAGES, WIDTH
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.shape import LayerShape
from planner.engine.activations.tape import Dims, Tape, Tensor
from planner.engine.activations.weight_book import WeightBook
from planner.model.spec import Norm

QWEN = "transformers 5.24, models/qwen2_5_vl/modeling_qwen2_5_vl.py"
MERGED: Dims = ("patches of a token", WIDTH)
TOKENS: Dims = (IMAGES, "patches")


@dataclass(frozen=True, slots=True)
class QwenTowerShape:
    """A tower, without sizes. `kinds`: of its layers; each may look inside windows alone."""

    layers: tuple[tuple[str, LayerShape], ...]
    norm: Norm
    sorted: bool
    """Patches are sorted by window (Qwen2.5-VL)."""

    def build(self, book: WeightBook, recipe: Recipe) -> "QwenTower":
        layers = [
            _make_layer(book, slot, shape, self.norm)
            for kind, shape in self.layers
            for slot in slots_of(kind, shape.copies)
        ]
        return QwenTower(
            self,
            recipe,
            book.tensor("patch_embed", (WIDTH, "channels", "frames", "pixels of a patch")),
            layers,
            book.norm("merger norm", (WIDTH,), self.norm),
            book.linear("linear_1", MERGED, MERGED),
            book.linear("linear_2", MERGED, ("hidden",)),
        )


@dataclass(slots=True)
class QwenLayer:
    slot: str
    shape: LayerShape
    norms: tuple[NormWeights, NormWeights]
    linears: dict[str, Linear]


def _make_layer(book: WeightBook, slot: str, shape: LayerShape, norm: Norm) -> QwenLayer:
    heads: Dims = tuple(layer_dims(shape, name) for name in ("heads", "head dim"))
    ffn, width = (layer_dims(shape, "ffn"),), (WIDTH,)
    with book.layer(slot):
        norms = book.norm("norm1", width, norm), book.norm("norm2", width, norm)
        linears = {"qkv": book.linear("q_proj", width, (3, *heads)), "proj": book.linear("o_proj", heads, width)}
        if shape.gated:
            linears["gate_proj"] = book.linear("gate_proj", width, ffn)
        linears |= {"up_proj": book.linear("up_proj", width, ffn), "down_proj": book.linear("down_proj", ffn, width)}
    return QwenLayer(slot, shape, norms, linears)


@dataclass(slots=True)
class QwenTower:
    """The weights of the recorded tower."""

    shape: QwenTowerShape
    recipe: Recipe
    patch_embed: Tensor
    layers: list[QwenLayer]
    merger_norm: NormWeights
    first: Linear
    second: Linear

    def pixels(self, t: Tape) -> Tensor:
        dims = (IMAGES, "channels", "frames", "pixels")
        return t.new(dims, self.recipe.weight_dtype, "pixel values")

    def features(self, t: Tape, pixels: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The features of all images, and what the outputs of the model go on holding."""
        with t.module("visual", f"{QWEN}: Qwen2_5_VisionTransformerPretrainedModel.forward"):
            pixels = ops.to(t, pixels, self.patch_embed.dtype)
            made = convolution(t, pixels, self.patch_embed, None, (IMAGES, WIDTH, "patches"), "patch_embed")
            hidden_states = ops.view(t, made, *TOKENS, WIDTH)
            del made
            if self.shape.sorted:
                hidden_states = gathered(t, hidden_states, *TOKENS, WIDTH, label="patches sorted by window")
            cos, sin = _tables(t, self.layers[0].shape, sorted_again=self.shape.sorted)
            for layer in self.layers:
                with t.layer(layer.slot), t.module("block", f"{QWEN}: Qwen2_5_VLVisionBlock.forward"):
                    hidden_states = self._checkpointed(t, layer, hidden_states, cos, sin)
            with t.module("merger"):
                normed = normalise(t, self.merger_norm, hidden_states, "norm")
                merged = linear(t, self.first, ops.view(t, normed, IMAGES, FEATURES, *MERGED))
                del normed
                merged = linear(t, self.second, activate(t, merged, "gelu"))
            if self.shape.sorted:
                merged = gathered(t, merged, *merged.dims, label="tokens in their own order")
            del cos, sin
            return merged, [hidden_states, merged]

    def _checkpointed(self, t: Tape, layer: QwenLayer, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        def forward(inner: Tensor) -> Tensor:
            return _block(t, layer, inner, cos, sin)

        return checkpointed(t, self.recipe.checkpointing, forward, x)


def _tables(t: Tape, shape: LayerShape, *, sorted_again: bool) -> tuple[Tensor, Tensor]:
    """Cosines and sines of every patch, in fp32."""
    dims = (*TOKENS, layer_dims(shape, "head dim"))
    with t.module("rotary_pos_emb"), t.no_grad():
        angles = t.new((*TOKENS, layer_dims(shape, "half head dim")), "fp32", "angles")
        t.tick("angles")
        tables: list[Tensor] = []
        for name in ("cos", "sin"):
            tables.append(t.new(dims, "fp32", name))
            t.tick(name)
        del angles
        if sorted_again:
            tables = [ops.shift(t, table, "table sorted by window") for table in tables]
    return tables[0], tables[1]


def _block(t: Tape, layer: QwenLayer, hidden_states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    normed = normalise(t, layer.norms[0], hidden_states, "norm1")
    hidden_states = ops.add(t, hidden_states, _attention(t, layer, normed, cos, sin), "residual sum")
    del normed
    normed = normalise(t, layer.norms[1], hidden_states, "norm2")
    return ops.add(t, hidden_states, _mlp(t, layer, normed), "residual sum")


def _attention(t: Tape, layer: QwenLayer, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    with t.module("attn", f"{QWEN}: Qwen2_5_VLVisionAttention.forward"):
        shape = layer.shape
        heads: Dims = (*TOKENS, layer_dims(shape, "heads"), layer_dims(shape, "head dim"))
        query, key, value = split(t, linear(t, layer.linears["qkv"], x), heads, heads, heads)
        query, key = _rotated(t, shape, query, key, cos, sin)
        output = attend(t, shape, query, key, value, None)
        output = cat(t, [output], output.dims, "outputs of all windows")
        return linear(t, layer.linears["proj"], ops.view(t, output))


def _rotated(t: Tape, shape: LayerShape, query: Tensor, key: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """`apply_rotary_pos_emb_vision`: in fp32."""
    dtype = query.dtype
    query, key = ops.to(t, query, "fp32", "q in fp32"), ops.to(t, key, "fp32", "k in fp32")
    q_embed, k_embed = rotate(t, query, key, cos, sin, layer_dims(shape, "half head dim"))
    q_embed = ops.to(t, q_embed, dtype, "rotated q, cast back")
    return q_embed, ops.to(t, k_embed, dtype, "rotated k, cast back")


def _mlp(t: Tape, layer: QwenLayer, x: Tensor) -> Tensor:
    with t.module("mlp"):
        linears, activation = layer.linears, layer.shape.activation
        if not layer.shape.gated:
            return linear(t, linears["down_proj"], activate(t, linear(t, linears["up_proj"], x), activation))
        gate = activate(t, linear(t, linears["gate_proj"], x), activation)
        inner = ops.mul(t, gate, linear(t, linears["up_proj"], x), "gated product")
        del gate
        return linear(t, linears["down_proj"], inner)
