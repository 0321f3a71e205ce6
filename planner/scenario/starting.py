"""Plans to start from: what a new window shows, and the life of any model with sensible workloads."""

from collections.abc import Mapping
from typing import Any

from planner.scenario.choices import WITHOUT_CHECKPOINTS
from planner.scenario.declaration import Declared
from planner.scenario.model_source import ConfigModel, DimensionsModel, SizeModel
from planner.scenario.scenario import Scenario

POSITION_KEYS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_sequence_length", "seq_length")
GENERATING = ("CausalLM", "LMHeadModel", "ConditionalGeneration")
GENERATING_TASKS = ("causal-lm", "seq2seq-lm", "image-text-to-text", "audio-text-to-text", "speech-seq2seq")
UNKNOWN_POSITIONS = 8192


def starting_scenario() -> Scenario:
    """An 8 B model on a server with four L40S, beside an H100 server and one RTX 4090: some of it does not fit."""
    return Scenario.of(
        {
            "name": "Llama 3.1 8B on four L40S",
            "model": {"preset": "meta-llama/Llama-3.1-8B"},
            "phases": {
                "design": {"micro_batch_size": 1, "sequence_length": 128},
                "preprocessing": {},
                "training": {
                    "precision": "bf16",
                    "optimizer": "adamw",
                    "micro_batch_size": 1,
                    "sequence_length": 8192,
                    "gradient_accumulation_steps": 16,
                    "activation_checkpointing": "full",
                    "attention_implementation": "sdpa",
                    "parallelism": {"data": 4, "zero_stage": 2},
                },
                "fine_tuning": _fine_tuning(2048),
                "evaluation": {"precision": "bf16", "batch_size": 4, "sequence_length": 2048},
                "serving": {"engine": "vllm", "concurrent_sequences": 32, "context_length": 8192},
            },
            "hardware": {
                "gpus": [{"id": "h100-sxm5-80gb", "count": 8}, {"id": "l40s", "count": 4}, "rtx-4090"],
                "judge": "l40s",
            },
        }
    )


def plan_for_model(
    source: Declared | Mapping[str, Any], name: str = "", *, max_positions: int | None = None, model_type: str = ""
) -> Scenario:
    """All six phases for a model that came without a plan: training on eight GPUs, QLoRA, and serving 32 requests.

    Lengths stay within the positions that the model's description states, or within `max_positions` where the
    reader knows better, and `model_type` is what it found the model to be. Raises `ScenarioError`.
    """
    scenario = Scenario.of({"name": name, "model": source})
    model = scenario.model
    longest = min(_longest(model), max_positions or UNKNOWN_POSITIONS)
    trained, served = min(4096, longest), min(8192, longest)
    generates, checkpointing = _generates(model), _checkpointing(model, model_type)
    phases = {
        "design": {"micro_batch_size": 1, "sequence_length": min(128, longest)},
        "preprocessing": {},
        "training": {
            "precision": "amp-bf16",
            "micro_batch_size": 1,
            "sequence_length": trained,
            "gradient_accumulation_steps": 16,
            "activation_checkpointing": checkpointing,
            "parallelism": {"data": 8, "zero_stage": 3},
        },
        "fine_tuning": _fine_tuning(min(2048, longest)) | {"activation_checkpointing": checkpointing},
        "evaluation": {"precision": "bf16", "batch_size": 8, "sequence_length": min(2048, longest)},
        "serving": {
            "engine": "vllm" if generates else "transformers",
            "concurrent_sequences": 32,
            "context_length": served,
        },
    }
    return scenario.with_value(("phases",), phases)


def _fine_tuning(length: int) -> dict[str, Any]:
    """The recipe of the QLoRA paper (arXiv:2305.14314) but for the optimizer, which needs no paging at this size."""
    return {
        "method": "qlora",
        "lora": {"rank": 16, "target_modules": "all-linear", "dropout": 0.05},
        "base_quantization": "nf4-double",
        "precision": "bf16",
        "micro_batch_size": 1,
        "sequence_length": length,
        "gradient_accumulation_steps": 16,
        "activation_checkpointing": "full",
    }


def _checkpointing(model: object, model_type: str) -> str:
    config = model.config if isinstance(model, ConfigModel) else {}
    return "none" if (model_type or config.get("model_type")) in WITHOUT_CHECKPOINTS else "full"


def _longest(model: object) -> int:
    """Positions that the description states, else a usual length."""
    if isinstance(model, DimensionsModel):
        return model.dimensions.max_positions or UNKNOWN_POSITIONS
    if isinstance(model, SizeModel):
        return model.max_positions or UNKNOWN_POSITIONS
    config = model.config if isinstance(model, ConfigModel) else {}
    text = config.get("text_config")
    places = (config, text) if isinstance(text, dict) else (config,)
    stated: list[int] = [place[key] for place in places for key in POSITION_KEYS if _is_length(place.get(key))]
    return min([UNKNOWN_POSITIONS, *stated])


def _is_length(value: object) -> bool:
    return type(value) is int and value > 0


def _generates(model: object) -> bool:
    """Whether the model writes text token by token; assumed where nothing says otherwise."""
    if isinstance(model, DimensionsModel):
        return model.dimensions.task in GENERATING_TASKS
    if not isinstance(model, ConfigModel):
        return True
    if model.task is not None:
        return model.task in GENERATING_TASKS
    if "_class_name" in model.config:  # a pipeline of diffusers
        return False
    named = model.config.get("architectures")
    names = [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
    return not names or any(ending in name for name in names for ending in GENERATING)
