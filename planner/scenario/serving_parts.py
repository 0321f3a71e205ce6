"""What is served beside the model itself: adapters, what drafts tokens ahead of it, and the parts of a pipeline."""

from planner.scenario.choices import DraftMethod, HalfDtype, PipelineOffload
from planner.scenario.declaration import Declared, declare
from planner.scenario.targets import LoraTargetModules

MAX_ADAPTERS = 10_000


class ServedAdapters(Declared):
    """LoRA adapters that are answered from together, each in a place of its own on the GPU."""

    count: int = declare(
        0,
        "Adapters",
        "Adapters on the GPU at the same time (vLLM max_loras, SGLang max_loras_per_batch). 0: the bare model.",
        unit="adapters",
        ge=0,
        le=MAX_ADAPTERS,
    )
    rank: int = declare(
        16, "Largest rank", "Every place is as wide as the widest adapter (max_lora_rank).", ge=1, le=65_536
    )
    target_modules: LoraTargetModules = declare(
        "all-linear",
        "Adapted layers",
        "Layers that have places for adapters. vLLM gives all linear layers places, whatever the adapters use.",
    )
    dtype: HalfDtype | None = declare(
        None, "Adapter type", "Number format of the places. Automatic: the engine's own.", advanced=True
    )
    fully_sharded: bool = declare(
        False,
        "Fully sharded",
        "vLLM's --fully-sharded-loras: both matrices are divided by tensor parallelism instead of one.",
        advanced=True,
    )


class Drafter(Declared):
    """What guesses tokens ahead, for the model to check."""

    method: DraftMethod = declare(
        "automatic",
        "Drafting",
        "What guesses tokens: the model's own draft layer, a smaller model, or an EAGLE head. Automatic: the draft "
        "layer, where the model has one.",
    )
    model: str | None = declare(
        None, "Draft model", "The smaller model: one of those that come with the planner.", max_length=300
    )
    vocabulary: int = declare(
        32_000,
        "Draft vocabulary",
        "Words that an EAGLE-3 head chooses among; draft_vocab_size of its configuration.",
        ge=1,
        le=10**9,
        advanced=True,
    )


class ImagePipeline(Declared):
    """How a diffusion pipeline makes its images."""

    guidance: bool | None = declare(
        None,
        "Guidance",
        "Classifier-free guidance: each step runs with the prompt and without it, in one batch. Automatic: as the "
        "pipeline does.",
    )
    attention_slicing: bool = declare(
        False,
        "Attention slicing",
        "A UNet attends with some heads at a time (enable_attention_slicing). It takes more than fused attention.",
    )
    vae_slicing: bool = declare(
        False, "One by one", "The autoencoder decodes one image after the other (enable_vae_slicing)."
    )
    vae_tiling: bool = declare(
        False, "In tiles", "The autoencoder decodes large images tile by tile (enable_vae_tiling)."
    )
    offload: PipelineOffload = declare(
        "none",
        "Components",
        "Where text encoders, denoiser and autoencoder wait: on the GPU, or on the host until they run.",
    )
