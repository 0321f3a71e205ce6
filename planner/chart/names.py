"""What components and phases are called in charts, tables and reports."""

from planner.engine.plan import PhaseName
from planner.engine.term import Component

COMPONENT_NAMES: dict[Component, str] = {
    "weights": "Weights",
    "gradients": "Gradients",
    "optimizer_states": "Optimizer states",
    "activations": "Activations",
    "logits": "Logits & loss",
    "kv_cache": "KV cache",
    "temporaries": "Temporaries",
    "overhead": "Overhead",
    "data": "Data",
}

PHASE_NAMES: dict[PhaseName, str] = {
    "design": "Design & validation",
    "preprocessing": "Data preprocessing",
    "training": "Training",
    "fine_tuning": "Fine-tuning",
    "evaluation": "Evaluation",
    "serving": "Serving",
}

PHASE_LABELS: dict[PhaseName, str] = {**PHASE_NAMES, "preprocessing": "Data pre\u00adprocessing"}
"""The same under bars, with a soft hyphen where a narrow column may break them."""

PHASE_SHORT_NAMES: dict[PhaseName, str] = {
    "design": "Design",
    "preprocessing": "Data",
    "training": "Train",
    "fine_tuning": "Tune",
    "evaluation": "Eval",
    "serving": "Serve",
}

ROLE_NAMES: dict[str, str] = {
    "policy": "Policy",
    "reference": "Reference model",
    "reward": "Reward model",
    "value": "Value model",
    "rollout": "Rollout engine",
}
"""The models of preference and reinforcement tuning."""
ROLE_SHORT_NAMES: dict[str, str] = {"reference": "Ref.", "reward": "Reward", "value": "Value", "rollout": "Rollout"}
