"""Whisper: two convolutions over the spectrogram, an encoder, and a decoder of text."""

from planner.model.readers.bart import half_layers
from planner.model.readers.config import Config
from planner.model.readers.tasks import task_of
from planner.model.spec import LAYER_NORM, Convolution, Embedding, Head, ModelSpec, Stack, Table

MODEL_TYPES = ("whisper",)
_KERNEL = (3,)


def read(config: Config, task: str | None) -> ModelSpec:
    """A Whisper model; the decoder is the main stack."""
    kind = task_of(config, task, "speech-seq2seq")
    vocab, hidden = config.size("vocab_size"), config.size("hidden_size")
    longest = config.size("max_target_positions")
    decoder = Stack(
        "decoder",
        hidden,
        Embedding(vocab, hidden),
        (half_layers(config, "decoder", first_norm=True, key_bias=False),),
        LAYER_NORM,
        (Table("embed_positions", longest, hidden),),
    )
    tied = config.flag("tie_word_embeddings", True)
    head = None if kind == "feature-extraction" else Head(vocab, tied, name="proj_out")
    return ModelSpec(config.model_type, config.model_type, kind, (decoder, encoder(config)), head, longest)


def encoder(config: Config, name: str = "encoder") -> Stack:
    """The half that hears: two convolutions, sinusoids in a table, and layers without key biases."""
    hidden = config.size("hidden_size")
    return Stack(
        name,
        hidden,
        None,
        (half_layers(config, "encoder", first_norm=True, key_bias=False),),
        LAYER_NORM,
        (
            Convolution("conv1", config.size("num_mel_bins"), hidden, _KERNEL),
            Convolution("conv2", hidden, hidden, _KERNEL, stride=2),
            Table("embed_positions", config.size("max_source_positions"), hidden, frozen=True),
        ),
    )
