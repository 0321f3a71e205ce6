"""Models without attention: Mamba, Falcon-Mamba, Mamba 2 and RWKV-4."""

from planner.model.readers.config import Config
from planner.model.readers.decoder import Traits, decoder_model
from planner.model.readers.layers import layer_count
from planner.model.spec import LAYER_NORM, ChannelMix, LayerGroup, Mamba, Mamba2, ModelSpec, NormPart, Rwkv

MODEL_TYPES = ("mamba", "falcon_mamba", "mamba2", "rwkv")


def dt_rank(config: Config, key: str = "time_step_rank") -> int:
    """The rank of the time-step projection; `auto` is a sixteenth of the hidden size."""
    return -(-config.size("hidden_size") // 16) if config.raw(key, "auto") == "auto" else config.size(key)


def inner_size(config: Config, key: str = "expand") -> int:
    """The widened size inside a state-space block."""
    return int(config.number(key, 2, minimum=0.01) * config.size("hidden_size"))


def _mamba(config: Config) -> Mamba:
    return Mamba(
        # Falcon-Mamba 7B states both, 16 x 4096 and 8192, of which the class uses the size itself.
        config.size("intermediate_size") if config.states("intermediate_size") else inner_size(config),
        config.size("state_size"),
        dt_rank(config),
        config.size("conv_kernel"),
        config.flag("use_conv_bias"),
        config.flag("use_bias"),
        weightless_norms=config.model_type == "falcon_mamba",
        fp32_residual=config.flag("residual_in_fp32", True),
    )


def _mamba2(config: Config) -> Mamba2:
    return Mamba2(
        config.size("num_heads"),
        config.size("head_dim"),
        config.size("state_size"),
        config.size("n_groups"),
        config.size("conv_kernel"),
        config.flag("use_conv_bias"),
        config.flag("use_bias"),
        chunk=config.size("chunk_size", 256),
        fp32_residual=config.flag("residual_in_fp32", True),
    )


def read(config: Config, task: str | None) -> ModelSpec:
    """A model whose layers keep a state of fixed size."""
    count = layer_count(config)
    if config.model_type == "rwkv":
        hidden = config.size("hidden_size")
        mix = ChannelMix(config.size("intermediate_size", 4 * hidden), hidden)
        group = LayerGroup(count, Rwkv(config.size("attention_hidden_size", hidden)), mix, LAYER_NORM)
        # The first block normalises the embeddings once more (`pre_ln`).
        return decoder_model(config, task, Traits(norm=LAYER_NORM), (group,), before=(NormPart("pre_ln", hidden),))
    mixer = _mamba2(config) if config.model_type == "mamba2" else _mamba(config)
    return decoder_model(config, task, Traits(), (LayerGroup(count, mixer, None, norms=1),))
