"""Qwen2-Audio and Voxtral: Whisper's encoder and a projector before a language model."""

from dataclasses import replace

from planner.model.readers.config import Config
from planner.model.readers.multimodal import joined, text_model, text_part
from planner.model.readers.whisper import encoder
from planner.model.spec import Linear, ModelSpec, Part

MODEL_TYPES = ("qwen2_audio", "voxtral")
_LARGE = {
    "d_model": 1280,
    "encoder_layers": 32,
    "encoder_attention_heads": 20,
    "encoder_ffn_dim": 5120,
    "num_mel_bins": 128,
}
"""What `Qwen2AudioEncoderConfig` and `VoxtralEncoderConfig` assume: the sizes of Whisper large v3."""
_WHISPER_NAMES = {
    "hidden_size": "d_model",
    "num_hidden_layers": "encoder_layers",
    "num_attention_heads": "encoder_attention_heads",
    "intermediate_size": "encoder_ffn_dim",
}
"""What Voxtral's files call the sizes, and what Whisper's do."""
_TEXT = {"qwen2_audio": "qwen2", "voxtral": "llama"}


def read(config: Config, task: str | None) -> ModelSpec:
    """A language model that hears."""
    text = text_part(config, _TEXT[config.model_type])
    language = text_model(text)
    part = config.part("audio_config", f"{config.model_type}_encoder")
    sizes = {_WHISPER_NAMES.get(key, key): value for key, value in part.stated.items()}
    own = Config({**_LARGE, **sizes}, "whisper", part.where)
    tower = encoder(own, "audio")
    projector = _projector(config, own, tower.hidden_size, language.stack.hidden_size)
    return joined(config, task, text, language, (replace(tower, after=projector),), False, "audio-text-to-text")


def _projector(config: Config, audio: Config, heard: int, width: int) -> tuple[Part, ...]:
    """Qwen2-Audio: one layer. Voxtral: two without bias, the first over as many frames as fill the feed-forward."""
    if config.model_type == "qwen2_audio":
        return (Linear("multi_modal_projector", heard, width, bias=True),)
    return Linear("linear_1", audio.size("encoder_ffn_dim"), width), Linear("linear_2", width, width)
