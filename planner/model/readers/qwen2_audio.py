"""Qwen2-Audio: Whisper's encoder and one linear layer before a Qwen 2."""

from dataclasses import replace

from planner.model.readers.config import Config
from planner.model.readers.multimodal import joined, text_model, text_part
from planner.model.readers.whisper import encoder
from planner.model.spec import Linear, ModelSpec

MODEL_TYPES = ("qwen2_audio",)
_LARGE = {
    "d_model": 1280,
    "encoder_layers": 32,
    "encoder_attention_heads": 20,
    "encoder_ffn_dim": 5120,
    "num_mel_bins": 128,
}
"""What `Qwen2AudioEncoderConfig` assumes: the sizes of Whisper large v3."""


def read(config: Config, task: str | None) -> ModelSpec:
    """A language model that hears."""
    text = text_part(config, "qwen2")
    language = text_model(text)
    part = config.part("audio_config", "qwen2_audio_encoder")
    tower = encoder(Config({**_LARGE, **part.stated}, "whisper", part.where), "audio")
    projector = Linear("multi_modal_projector", tower.hidden_size, language.stack.hidden_size, bias=True)
    return joined(config, task, text, language, (replace(tower, after=(projector,)),), ties=False)
