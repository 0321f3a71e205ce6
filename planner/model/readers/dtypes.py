"""The precision in which a model's weights are published."""

from collections.abc import Mapping
from typing import Any

from planner.model.spec import Quantization

_DTYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float8_e4m3fn": "fp8"}
_BITS = {"fp8": 8.0, "mxfp4": 4.25, "compressed-tensors": 8.0, "modelopt": 4.0, "fbgemm_fp8": 8.0}


def published_dtype(config: Mapping[str, Any]) -> str:
    """`dtype` or, as it was called before, `torch_dtype`, also inside `text_config`; 16 bit where none is stated."""
    text = config.get("text_config")
    for place in (config, text if isinstance(text, Mapping) else {}):
        for key in ("dtype", "torch_dtype"):
            stated = place.get(key)
            if isinstance(stated, str) and stated.removeprefix("torch.") in _DTYPES:
                return _DTYPES[stated.removeprefix("torch.")]
    return "bf16"


def published_quantization(config: Mapping[str, Any]) -> Quantization | None:
    """What `quantization_config` says of the stored weights."""
    stated = config.get("quantization_config")
    if not isinstance(stated, Mapping):
        return None
    method = str(stated.get("quant_method") or "unknown")
    bits = stated.get("bits", stated.get("w_bit"))
    if method == "bitsandbytes":
        bits = 4 if stated.get("load_in_4bit") else 8
    if isinstance(bits, bool) or not isinstance(bits, int | float) or not 1 <= bits <= 32:
        bits = _BITS.get(method, 16.0)
    group = stated.get("group_size", stated.get("q_group_size"))
    stored = stated.get("stored_bytes")
    return Quantization(
        method,
        float(bits),
        group if isinstance(group, int) and group > 0 else None,
        stored if isinstance(stored, int) and stored > 0 else None,
    )
