"""Mixers with a state of fixed size instead of a cache that grows: state-space and linear-attention blocks."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mamba:
    """A selective state-space block (Mamba 1, arXiv:2312.00752)."""

    inner_size: int
    state_size: int
    dt_rank: int
    kernel: int
    conv_bias: bool = True
    bias: bool = False
    inner_norms: bool = False
    """Jamba normalises dt, B and C by RMS norms with weights."""
    weightless_norms: bool = False
    """Falcon-Mamba normalises them by RMS norms without weights."""
    fp32_residual: bool = False
    """The residual stream is kept in fp32 whatever the model's precision."""

    @property
    def cached_elements(self) -> int:
        return 0

    @property
    def state_elements(self) -> tuple[int, int]:
        """(recurrent, convolution) elements per sequence."""
        return self.inner_size * self.state_size, self.inner_size * self.kernel


@dataclass(frozen=True, slots=True)
class Mamba2:
    """A state-space dual block (Mamba 2, arXiv:2405.21060) with heads."""

    heads: int
    head_dim: int
    state_size: int
    groups: int
    kernel: int
    conv_bias: bool = True
    bias: bool = False
    gated_norm: bool = True
    output_bias: bool | None = None
    """Bias of the output projection where it differs from `bias`."""
    chunk: int = 256
    """Tokens that the scan works on at once."""
    fp32_residual: bool = False
    """The residual stream is kept in fp32 whatever the model's precision."""

    @property
    def inner_size(self) -> int:
        return self.heads * self.head_dim

    @property
    def conv_size(self) -> int:
        return self.inner_size + 2 * self.groups * self.state_size

    @property
    def cached_elements(self) -> int:
        return 0

    @property
    def state_elements(self) -> tuple[int, int]:
        return self.inner_size * self.state_size, self.conv_size * self.kernel


@dataclass(frozen=True, slots=True)
class GatedDeltaNet:
    """The linear attention of Qwen3-Next and Qwen3.5 (arXiv:2412.06464)."""

    key_heads: int
    value_heads: int
    key_head_dim: int
    value_head_dim: int
    kernel: int
    fused: bool = True
    """Qwen3-Next stores (q, k, v, z) and (b, a) as two matrices, Qwen3.5 (q, k, v), z, b and a as four."""

    @property
    def key_size(self) -> int:
        return self.key_heads * self.key_head_dim

    @property
    def value_size(self) -> int:
        return self.value_heads * self.value_head_dim

    @property
    def conv_size(self) -> int:
        return 2 * self.key_size + self.value_size

    @property
    def cached_elements(self) -> int:
        return 0

    @property
    def state_elements(self) -> tuple[int, int]:
        return self.value_heads * self.key_head_dim * self.value_head_dim, self.conv_size * self.kernel


@dataclass(frozen=True, slots=True)
class Rwkv:
    """The time-mix block of RWKV-4 (arXiv:2305.13048)."""

    size: int

    @property
    def cached_elements(self) -> int:
        return 0

    @property
    def state_elements(self) -> tuple[int, int]:
        """Five vectors per layer: two shifted inputs, numerator, denominator and maximum."""
        return 3 * self.size, 2 * self.size


@dataclass(frozen=True, slots=True)
class LightningAttention:
    """The linear attention of MiniMax-Text-01 (arXiv:2501.08313)."""

    heads: int
    head_dim: int

    @property
    def cached_elements(self) -> int:
        return 0

    @property
    def state_elements(self) -> tuple[int, int]:
        return self.heads * self.head_dim * self.head_dim, 0


@dataclass(frozen=True, slots=True)
class ShortConvolution:
    """The gated short convolution of LFM2."""

    size: int
    kernel: int
    bias: bool = False

    @property
    def cached_elements(self) -> int:
        return 0

    @property
    def state_elements(self) -> tuple[int, int]:
        return 0, self.size * self.kernel


@dataclass(frozen=True, slots=True)
class RealGatedRecurrence:
    """The RG-LRU block of RecurrentGemma (arXiv:2402.19427)."""

    size: int
    heads: int
    kernel: int

    @property
    def cached_elements(self) -> int:
        return 0

    @property
    def state_elements(self) -> tuple[int, int]:
        return self.size, self.size * (self.kernel - 1)
