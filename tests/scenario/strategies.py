"""Random but valid scenarios, made from the declarations themselves."""

import json
import math
from typing import Any

from hypothesis import strategies as st

from planner.scenario import Declared, FieldDeclaration
from planner.scenario.hardware import CustomNode, Hardware
from planner.scenario.model_source import SOURCES
from planner.scenario.phases import Phases

text = st.text(st.characters(blacklist_categories=("Cs",)), max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
gpu_entries = st.one_of(
    st.sampled_from(["h100-sxm5-80gb", "l40s", "a100-sxm4-80gb/3g.40gb"]),
    st.fixed_dictionaries({"id": st.just("l40s")}, optional={"count": st.integers(1, 64)}),
    st.fixed_dictionaries({"name": text.filter(str.strip), "memory_gib": st.floats(1, 1024)}),
)
roles = st.lists(st.sampled_from(["q_proj", "v_proj", "down_proj", "lm_head"]), min_size=2, max_size=4)


def documents_of(part: type[Declared]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects that a part accepts, with any of its optional fields."""
    fields = {item.name: values_of(item) for item in part.declarations()}
    required = {item.name for item in part.declarations() if item.required}
    return st.fixed_dictionaries(
        {name: fields[name] for name in required},
        optional={name: value for name, value in fields.items() if name not in required},
    )


def values_of(field: FieldDeclaration) -> st.SearchStrategy[Any]:
    match field.name, field.kind:
        case "config_json", _:
            return st.dictionaries(text, json_values, max_size=4).map(json.dumps)
        case "config", _:
            return st.dictionaries(text, json_values, max_size=4)
        case "gpus", _:
            return st.lists(gpu_entries, min_size=1, max_size=3)
        case "node", _:
            return st.just("aws-p3-2xlarge") | documents_of(CustomNode)
        case "target_modules", _:
            return st.sampled_from(["all-linear", "attention"]) | roles
        case "exports", _:
            return st.lists(st.sampled_from(["bf16", "fp8", "q4_k_m"]), max_size=2)
        case (("framework_version" | "engine_version"), _):
            return st.sampled_from(["transformers 4.57.6", "vllm 0.19.0"])
        case _, "model":
            assert field.part is not None
            return documents_of(field.part)
        case _, "choice":
            return st.sampled_from([value for value, _ in field.choices])
        case _, "bool":
            return st.booleans()
        case _, "int":
            return st.integers(math.ceil(field.minimum or 0), math.floor(field.maximum or 10**6))
        case _, "float":
            return st.floats(field.minimum, field.maximum)
        case _:
            return text


models = st.one_of([documents_of(part) for part in SOURCES.values()])
scenarios = st.fixed_dictionaries(
    {"format": st.just("vram-planner/scenario"), "version": st.just(1), "model": models},
    optional={"name": text, "phases": documents_of(Phases), "hardware": documents_of(Hardware)},
)
