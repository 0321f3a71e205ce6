"""Layers for multi-token prediction (arXiv:2404.19737) that a checkpoint holds and the model's class leaves out.

transformers drops them when it loads (`_keys_to_ignore_on_load_unexpected` of `DeepseekV3PreTrainedModel`,
`Glm4MoePreTrainedModel` and `Qwen3NextPreTrainedModel`), and serving engines read them only to draft tokens. They are
no part of a model's parameters, but of its file. A configuration may state modules that its file lacks: MiniMax-M2.5's
`num_mtp_modules` is 3, and the Hub's 228 703 644 928 elements are the model's and its fp8 scales'.
"""

from dataclasses import replace

from planner.model.prediction import HEAD_COPY, joined
from planner.model.readers.config import Config
from planner.model.spec import (
    RMS_NORM,
    Attention,
    Embedding,
    LatentAttention,
    LayerGroup,
    Linear,
    ModelSpec,
    NormPart,
    Repeated,
    Stack,
)

WHOLE_MODULES = ("deepseek_v3", "deepseek_v32", "kimi_k2", "glm4_moe", "glm4_moe_lite", "glm_moe_dsa")
"""Each module is a layer with a projection, three norms, and copies of token table and head (README_WEIGHTS.md of
DeepSeek-V3: 14B beside the 671B, of which 11.5B are its own)."""
SHARED_ENDS = ("qwen3_next", "qwen3_5", "qwen3_5_moe", "qwen3_5_text", "qwen3_5_moe_text")
"""All layers share one projection and three norms; token table and head are the model's own (vLLM,
model_executor/models/qwen3_next_mtp.py; `mtp_use_dedicated_embeddings` is false)."""
OWN_NORMS = ("mimo",)
"""Each module is a layer with a projection and three norms of its own; table and head are the model's (vLLM,
model_executor/models/mimo_mtp.py MiMoMultiTokenPredictorLayer)."""
MOST_MODULES = 64


def with_prediction(config: Config, spec: ModelSpec) -> ModelSpec:
    """`spec` with the prediction layers that its file states."""
    if config.model_type not in (*WHOLE_MODULES, *SHARED_ENDS, *OWN_NORMS) or spec.head is None:
        return spec
    count = _modules(config)
    layer = _layer(spec) if count else None
    if layer is None:
        return spec
    hidden = spec.stack.hidden_size
    if config.model_type in SHARED_ENDS:
        stack = Stack("prediction", hidden, None, (replace(layer, count=count),), spec.stack.final_norm, joined(hidden))
        return replace(spec, prediction=stack)
    norm = NormPart("shared_head.norm", hidden, RMS_NORM)
    if config.model_type in OWN_NORMS:
        ends = (Repeated(count, (*joined(hidden), norm)),)
        return replace(spec, prediction=Stack("prediction", hidden, None, (replace(layer, count=count),), None, ends))
    module = (*joined(hidden), norm, Linear(HEAD_COPY, hidden, spec.head.outputs, kind="subclass"))
    # Each module repeats the token table.
    table = Embedding(count * spec.head.outputs, hidden)
    stack = Stack("prediction", hidden, table, (replace(layer, count=count),), None, (Repeated(count, module),))
    return replace(spec, prediction=stack)


def _modules(config: Config) -> int:
    """How many the file states; Qwen3-Next has one and does not say so."""
    text = config.part("text_config", config.model_type) if config.states("text_config") else config
    for key in ("num_nextn_predict_layers", "mtp_num_hidden_layers"):
        if text.states(key):
            return text.size(key, minimum=0, maximum=MOST_MODULES)
    return int(config.model_type == "qwen3_next")


def _layer(spec: ModelSpec) -> LayerGroup | None:
    """A layer of the model's last kind with attention."""
    groups = [group for group in spec.stack.groups if isinstance(group.mixer, Attention | LatentAttention)]
    return replace(groups[-1], indices=()) if groups else None
