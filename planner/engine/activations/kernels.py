"""Which attention kernel PyTorch picks, and whether it is given a mask."""

from planner.engine.activations.recipe import Kernel

FLASH_HEAD_DIM = 256
"""Largest head that FlashAttention 2 takes (torch `sdp_utils.cpp: check_head_dim_size_flash`)."""


def kernel(
    implementation: str, compute_dtype: str, *, masked: bool, grouped_queries: bool, single_kv_head: bool, head_dim: int
) -> Kernel:
    """The kernel of one attention layer on SM 8.0 to 9.0 with torch 2.13.

    Flash wants 16 bits and no mask; memory-efficient attention takes a mask and fp32, but not fewer key than query
    heads, which transformers passes on as such when there is no mask; what neither takes is computed step by step.
    Sources: torch `sdp_utils_cpp.cpp` and `sdp_utils.cpp: select_sdp_backend`; transformers
    `integrations/sdpa_attention.py: use_gqa_in_sdpa`.
    """
    if implementation == "eager":
        return "eager"
    if implementation == "flash_attention_2":
        return "flash"
    if masked:
        return "efficient"
    if compute_dtype != "fp32":
        return "flash" if head_dim <= FLASH_HEAD_DIM else "math"
    return "math" if grouped_queries and not single_kv_head else "efficient"
