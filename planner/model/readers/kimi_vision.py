"""Kimi K2.5: a MoonViT tower for images of any size, a merger of patches, and a DeepSeek-V3 of Kimi's sizes."""

from planner.model.readers.config import Config
from planner.model.readers.layers import layer_count
from planner.model.readers.multimodal import joined, text_model, text_part
from planner.model.spec import (
    LAYER_NORM,
    Attention,
    Convolution,
    DenseFeedForward,
    ImageInput,
    LayerGroup,
    Linear,
    ModelSpec,
    NormPart,
    Part,
    Stack,
    Tensor,
)

MODEL_TYPES = ("kimi_k25",)
_CLASS = {
    "hidden_size": 1152,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "intermediate_size": 4304,
    "patch_size": 14,
    "hidden_act": "gelu_pytorch_tanh",
    "pos_emb_height": 64,
    "pos_emb_width": 64,
    "merge_kernel_size": [2, 2],
}
"""What `Kimi_K25VisionConfig` of transformers 5.24 assumes."""
_REMOTE = "vt_"
"""How the checkpoints' own code begins the names of the tower's sizes."""


def read(config: Config, task: str | None) -> ModelSpec:
    """A vision-language model whose text is Kimi K2."""
    text = text_part(config, "kimi_k2")
    language = text_model(text)
    stated = config.part("vision_config", "kimi_k25_vision")
    usual = {key.removeprefix(_REMOTE): value for key, value in stated.stated.items() if value is not None}
    tower = _tower(Config({**_CLASS, **usual}, "kimi_k25_vision", stated.where), language.stack.hidden_size)
    return joined(config, task, text, language, (tower,), ties=False)


def _tower(config: Config, width: int) -> Stack:
    hidden, patch = config.size("hidden_size"), config.size("patch_size")
    heads = config.size("num_attention_heads")
    mixer = Attention(
        heads,
        heads,
        config.divisible("hidden_size", "num_attention_heads"),
        qkv_bias=True,
        output_bias=True,
        causal=False,
        names=("q_proj", "k_proj", "v_proj", "proj"),
    )
    network = DenseFeedForward(
        config.size("intermediate_size"),
        gated=False,
        activation=config.text("hidden_act"),
        bias=True,
        names=("", "fc1", "fc2"),
    )
    grid = (config.size("pos_emb_height"), config.size("pos_emb_width"), hidden)
    before = (
        Convolution("proj", 3, hidden, (patch, patch), patch),
        Tensor("position_embeddings", grid),
    )
    rows, columns = config.sizes("merge_kernel_size", 2)
    merged = rows * columns * hidden
    after: tuple[Part, ...] = (
        NormPart("pre_norm", hidden, LAYER_NORM),
        Linear("in_proj", merged, merged, bias=True),
        Linear("out_proj", merged, width, bias=True),
    )
    layers = LayerGroup(layer_count(config), mixer, network, LAYER_NORM)
    return Stack("vision", hidden, None, (layers,), LAYER_NORM, before, after, ImageInput(patch, merge_size=rows))
