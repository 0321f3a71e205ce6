"""Cosines and sines of all positions, which vLLM and SGLang compute once and keep beside the weights.

One table per kind of layer that turns differently; layers that turn alike share it (`get_rope` remembers each).
"""

from collections.abc import Iterator
from math import ceil

from planner.engine.servers.workload import LOADED, RUNNING
from planner.engine.term import Factor, Term
from planner.model.spec import Attention, LatentAttention, ModelSpec, RotaryTable

SECTIONS_STRETCH = 4
"""vllm/model_executor/layers/rotary_embedding/mrope.py: four times the positions, for the length of videos."""
SOURCE = (
    "vllm/model_executor/layers/rotary_embedding: cos and sin of half the rotated dimension each, made once; linear, "
    "NTK and YaRN stretch the positions, longrope keeps two tables"
)
SGLANG_SOURCE = (
    "python/sglang/srt/layers/rotary_embedding/base.py: cos and sin of half the rotated dimension each, in fp32 on CUDA"
)
TENSORRT_SOURCE = (
    "tensorrt_llm/_torch/attention_backend/interface.py create_rope_const_params: one fp32 table of all positions, "
    "made with the first pass: 8.46 GiB are logged before it for Llama 3.1 8B in fp8 (NVIDIA/TensorRT-LLM#6294)"
)
SOURCES = {"sglang": SGLANG_SOURCE, "tensorrt-llm": TENSORRT_SOURCE}


def rotary_terms(spec: ModelSpec, weights: str, engine: str) -> tuple[Term, ...]:
    """The tables of the main stack, for a model whose weights are in the format `weights`."""
    positions = spec.max_positions
    if not positions:
        return ()
    source = SOURCES.get(engine, SOURCE)
    bytes_each = 4 if weights == "fp32" or _keeps_fp32(spec, engine) else 2
    alive = RUNNING if engine == "tensorrt-llm" else LOADED
    terms = []
    for table in spec.rotary:
        rows, note = _rows(table, positions, engine)
        for width in sorted(set(_widths(spec, table)), reverse=True):
            name = "rotary table" if table.layers != "windowed" else "rotary table of windows"
            factors = (Factor("positions", rows, note), Factor("rotated dim", width), Factor("bytes", bytes_each))
            terms.append(Term("weights", name, factors, alive, source))
    return tuple(terms)


def _keeps_fp32(spec: ModelSpec, engine: str) -> bool:
    """TensorRT-LLM always; SGLang but for longrope's two tables (rope_variant.py)."""
    if engine == "sglang":
        return all(table.scaling != "longrope" for table in spec.rotary)
    return engine == "tensorrt-llm"


def _rows(table: RotaryTable, positions: int, engine: str) -> tuple[int, str]:
    """Rows of a table, and how they come about."""
    if engine == "tensorrt-llm":
        return positions, ""
    if table.scaling == "longrope":
        short = table.original_positions or 0
        return short + positions, f"{short} short + {positions} long"
    factor = table.factor
    if table.scaling in ("linear", "ntk", "dynamic"):
        rows, note = positions * factor, f"{positions} x {factor:g}"
    elif table.scaling == "yarn" and table.original_positions:
        rows, note = table.original_positions * factor, f"{table.original_positions} x {factor:g}"
    else:
        rows, note = float(positions), ""
    if table.sections and engine == "vllm":
        rows, note = rows * SECTIONS_STRETCH, f"{note or positions} x {SECTIONS_STRETCH}"
    return ceil(rows), note


def _widths(spec: ModelSpec, table: RotaryTable) -> Iterator[int]:
    """Rotated elements of a head, of each layer that turns by `table`; Gemma 4 pads what it does not turn."""
    for group in spec.stack.groups:
        mixer = group.mixer
        if isinstance(mixer, LatentAttention):
            width, windowed = mixer.qk_rope_head_dim, False
        elif isinstance(mixer, Attention) and mixer.rotary_share:
            whole = table.scaling == "proportional"
            width, windowed = int(mixer.head_dim * (1 if whole else mixer.rotary_share)), mixer.window is not None
        else:
            continue
        if width and table.layers in ("all", "windowed" if windowed else "full"):
            yield width
