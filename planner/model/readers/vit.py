"""Vision transformers: ViT, DeiT, BEiT and DINOv2, with a classifier or as feature extractors."""

from collections.abc import Sequence
from dataclasses import dataclass

from planner.errors import ModelError
from planner.model.readers.config import Config
from planner.model.readers.layers import layer_count
from planner.model.readers.tasks import task_of
from planner.model.spec import (
    LAYER_NORM,
    Attention,
    Convolution,
    DenseFeedForward,
    Head,
    ImageInput,
    LayerGroup,
    Linear,
    ModelSpec,
    Part,
    Stack,
    Task,
    Tensor,
)

MODEL_TYPES = ("vit", "deit", "beit", "dinov2", "dinov2_with_registers")
NAMES = ("q_proj", "k_proj", "v_proj", "o_proj")


@dataclass(frozen=True, slots=True)
class Patches:
    """The grid that an image is cut into."""

    image_size: int
    patch_size: int
    channels: int

    @property
    def side(self) -> int:
        return self.image_size // self.patch_size

    @property
    def count(self) -> int:
        return self.side**2

    def projection(self, width: int, name: str = "patch_embedding", bias: bool = True) -> Convolution:
        """The convolution that makes one vector of each patch."""
        kernel = (self.patch_size, self.patch_size)
        return Convolution(name, self.channels, width, kernel, self.patch_size, bias=bias)

    def image(self) -> ImageInput:
        return ImageInput(self.patch_size, self.image_size, self.channels)


def patches(config: Config) -> Patches:
    """Sides of image and patch; square ones may be stated as a pair."""
    image, patch = _side(config, "image_size"), _side(config, "patch_size")
    if patch > image:
        raise config.error("patch_size", patch, f"at most the image size {image}")
    return Patches(image, patch, config.size("num_channels", 3))


def _side(config: Config, key: str) -> int:
    if isinstance(config.raw(key), list | tuple):
        sides = config.sizes(key, 2)
        if sides[0] != sides[1]:
            raise config.error(key, sides, "the same for both sides")
        return config.with_values(**{key: sides[0]}).size(key)
    return config.size(key)


def tower_layer(
    config: Config,
    names: tuple[str, str, str, str] = NAMES,
    *,
    qkv_bias: bool = True,
    key_bias: bool | None = None,
    extra: Sequence[Part] = (),
    network: DenseFeedForward | None = None,
    dropout: str = "attention_probs_dropout_prob",
) -> LayerGroup:
    """All layers of a plain vision transformer: norms first, two-layer feed-forward."""
    heads = config.size("num_attention_heads")
    mixer = Attention(
        heads,
        heads,
        config.divisible("hidden_size", "num_attention_heads"),
        qkv_bias=qkv_bias,
        output_bias=True,
        dropout=config.number(dropout, 0.0, maximum=1.0),
        key_bias=key_bias,
        causal=False,
        rotary_share=0.0,
        names=names,
    )
    if network is None:
        network = two_layers(config, config.size("intermediate_size"))
    dropped = config.number("hidden_dropout_prob", 0.0, maximum=1.0)
    paths = config.number("drop_path_rate", 0.0, maximum=1.0)
    return LayerGroup(
        layer_count(config), mixer, network, LAYER_NORM, extra=tuple(extra), dropout=dropped, drop_path=paths
    )


def two_layers(config: Config, size: int) -> DenseFeedForward:
    activation = config.text("hidden_act", "gelu")
    return DenseFeedForward(size, gated=False, activation=activation, bias=True, names=("", "fc1", "fc2"))


def read(config: Config, task: str | None) -> ModelSpec:
    """A vision transformer."""
    kind = task_of(config, task, "image-classification")
    hidden, grid = config.size("hidden_size"), patches(config)
    before, group, after = _parts(config, hidden, grid, kind)
    stack = Stack("vision", hidden, None, (group,), LAYER_NORM, before, after, grid.image())
    return ModelSpec(config.model_type, config.model_type, kind, (stack,), classifier(config, kind, hidden))


def classifier(config: Config, task: Task, hidden: int) -> Head | None:
    """A linear classifier over labels; DINOv2's reads the class token beside the mean of the patches."""
    if task == "feature-extraction":
        return None
    if task != "image-classification":
        raise ModelError(f"{config.where}: a model of type “{config.model_type}” has no head for the task “{task}”.")
    inputs = 2 * hidden if config.model_type.startswith("dinov2") else hidden
    return Head(config.labels(), bias=True, kind="classification", inputs=inputs, name="classifier")


def _parts(
    config: Config, hidden: int, grid: Patches, task: Task
) -> tuple[tuple[Part, ...], LayerGroup, tuple[Part, ...]]:
    token, projection = Tensor("cls_token", (1, 1, hidden)), grid.projection(hidden)
    if config.model_type.startswith("dinov2"):
        return _dinov2(config, hidden, grid, (token, projection))
    if config.model_type == "beit":
        return _beit(config, hidden, grid, (token, projection))
    tokens: list[Part] = [token, projection]
    if config.model_type == "deit":
        tokens.append(Tensor("distillation_token", (1, 1, hidden)))
    positions = grid.count + len(tokens) - 1
    pooled = task == "feature-extraction"
    size = config.size("pooler_output_size", hidden)
    after = (Linear("pooler", hidden, size, bias=True),) if pooled else ()
    group = tower_layer(config, qkv_bias=config.flag("qkv_bias", True))
    return (*tokens, Tensor("position_embeddings", (1, positions, hidden))), group, after


def _dinov2(
    config: Config, hidden: int, grid: Patches, first: tuple[Part, ...]
) -> tuple[tuple[Part, ...], LayerGroup, tuple[Part, ...]]:
    before = [*first, Tensor("position_embeddings", (1, grid.count + 1, hidden))]
    if config.flag("use_mask_token", True):
        before.append(Tensor("mask_token", (1, hidden)))
    if config.model_type == "dinov2_with_registers":
        before.append(Tensor("register_tokens", (1, config.size("num_register_tokens"), hidden)))
    size = int(hidden * config.number("mlp_ratio", 4, minimum=0.01))
    network = two_layers(config, size)
    if config.flag("use_swiglu_ffn"):
        # Two thirds of the size, up to a multiple of 8 (`Dinov2SwiGLUFFN`).
        network = DenseFeedForward((int(size * 2 / 3) + 7) // 8 * 8, bias=True)
    scales = (Tensor("layer_scale1", (hidden,)), Tensor("layer_scale2", (hidden,)))
    group = tower_layer(config, qkv_bias=config.flag("qkv_bias", True), extra=scales, network=network)
    return tuple(before), group, ()


def _beit(
    config: Config, hidden: int, grid: Patches, first: tuple[Part, ...]
) -> tuple[tuple[Part, ...], LayerGroup, tuple[Part, ...]]:
    before, extra = list(first), list[Part]()
    if config.flag("use_mask_token"):
        before.append(Tensor("mask_token", (1, 1, hidden)))
    if config.flag("use_absolute_position_embeddings"):
        before.append(Tensor("position_embeddings", (1, grid.count + 1, hidden)))
    bias = Tensor("relative_position_bias_table", ((2 * grid.side - 1) ** 2 + 3, config.size("num_attention_heads")))
    if config.flag("use_shared_relative_position_bias"):
        before.append(bias)
    if config.flag("use_relative_position_bias"):
        extra.append(bias)
    if config.number("layer_scale_init_value", 0.1) > 0:
        extra += [Tensor("lambda_1", (hidden,)), Tensor("lambda_2", (hidden,))]
    return tuple(before), tower_layer(config, key_bias=False, extra=extra), ()
