"""Which adapters peft attaches to routed experts, and that they are not counted.

Where experts are linear layers (transformers 4), `all-linear` and the names of their projections reach them. Where they
are joined in one parameter (transformers 5), peft translates the same targets for the classes that it knows, and adapts
the router too. Source: peft 0.21.2 `utils/transformers_weight_conversion.py: _convert_peft_config_moe,
_resolve_string_target_modules`, `tuners/lora/layer.py: ParamWrapper`; transformers 5.24 `conversion_mapping.py:
_MODEL_TO_CONVERSION_PATTERN`.
"""

from planner.engine.activations.versions import precedes_transformers_5
from planner.model.spec import MixtureOfExperts, ModelSpec
from planner.scenario.phases import FineTuning
from planner.scenario.step import TrainingStep

TRANSLATED = frozenset((
    "mixtral", "minimax", "minimax_m2", "afmoe", "deepseek_v2", "deepseek_v3", "deepseek_v32", "dots1",
    "ernie4_5_moe", "glm4_moe", "glm4_moe_lite", "glm_moe_dsa", "glm4v_moe", "longcat_flash", "solar_open", "mellum",
    "qwen3_moe", "qwen3_omni_moe", "qwen3_next", "hunyuan_v1_moe", "flex_olmo", "olmoe", "exaone_moe", "cohere2_moe",
))  # fmt: skip
"""Model types whose old targets peft translates; `qwen2_moe` itself is not among them."""

EXPERT_NAMES = frozenset(("gate", "w1", "w2", "w3", "gate_proj", "up_proj", "down_proj"))

AS_PARAMETERS = (
    "peft (0.21, with transformers 5) also adapts the router and the experts of this model, which are one parameter, "
    "and makes their whole update at every step. This is not counted; target `attention` to leave them alone."
)
AS_LAYERS = (
    "With transformers 4 the experts are linear layers, which get adapters too. These are not counted; target "
    "`attention` to leave them alone."
)


def uncounted_adapters(phase: TrainingStep, spec: ModelSpec) -> tuple[str, ...]:
    """What peft adapts beside the linear layers that are counted."""
    if not isinstance(phase, FineTuning) or not phase.uses_adapters or phase.activation_profile != "hf-transformers":
        return ()
    networks = [group.feed_forward for stack in spec.stacks for group in stack.groups]
    if not any(isinstance(one, MixtureOfExperts) and one.expert_kind == "subclass" for one in networks):
        return ()
    targets = phase.lora.target_modules
    if targets != "all-linear" and EXPERT_NAMES.isdisjoint((targets,) if isinstance(targets, str) else targets):
        return ()
    if precedes_transformers_5(phase.framework_version):
        return (AS_LAYERS,)
    return (AS_PARAMETERS,) if spec.model_type in TRANSLATED else ()
