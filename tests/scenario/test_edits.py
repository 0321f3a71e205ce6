import pytest

from planner.scenario import Scenario, declaration_at, edited, field_applies, undo_text
from planner.scenario.scenario import FieldPath
from planner.scenario.starting import starting_scenario


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("phases", "serving", "context_length"), "Set context length"),
        (("phases", "training", "parallelism", "tensor"), "Set tensor parallel"),
        (("phases", "serving", "kv_cache_dtype"), "Set KV cache type"),
        (("phases", "training", "parallelism", "zero_stage"), "Set ZeRO stage"),
        (("phases", "fine_tuning", "lora", "rank"), "Set rank"),
        (("hardware", "gpus"), "Set GPUs"),
        (("model", "dimensions", "layers"), "Set layers"),
        (("nowhere",), "Set value"),
    ],
)
def test_an_edit_is_called_after_its_field(path: FieldPath, text: str) -> None:
    assert undo_text(path, 1) == text


def test_switching_a_phase_is_called_planning_it_or_leaving_it_out() -> None:
    assert undo_text(("phases", "fine_tuning"), {}) == "Plan fine-tuning"
    assert undo_text(("phases", "fine_tuning"), None) == "Leave out fine-tuning"


def test_a_path_leads_to_its_declaration_through_lists_and_alternatives() -> None:
    field = declaration_at(("hardware", "gpus", 0, "memory_gib"))
    assert field
    assert (field.name, field.unit) == ("memory_gib", "GiB")
    assert declaration_at(("phases", "training", "nothing")) is None


def test_another_engine_takes_back_what_only_the_former_has() -> None:
    serving = ("phases", "serving")
    scenario = Scenario.of({"model": {"preset": "x"}}).with_value((*serving, "gpu_memory_utilization"), 0.8)
    scenario = scenario.with_value((*serving, "cuda_graphs"), False)
    changed = edited(scenario, (*serving, "engine"), "llama.cpp")
    assert changed.to_document()["phases"]["serving"] == {"engine": "llama.cpp", "cuda_graphs": False}


def test_another_method_takes_back_the_quantized_base() -> None:
    changed = edited(starting_scenario(), ("phases", "fine_tuning", "method"), "lora")
    assert changed.phases.fine_tuning
    assert changed.phases.fine_tuning.base_quantization is None
    assert changed.phases.fine_tuning.lora.dropout == 0.05


def test_an_edit_leaves_alone_what_did_not_apply_before_it() -> None:
    scenario = starting_scenario().with_value(("phases", "training", "loss_chunks"), 4)
    changed = edited(scenario, ("phases", "training", "micro_batch_size"), 2)
    assert changed.phases.training
    assert changed.phases.training.loss_chunks == 4


def test_a_form_can_ask_whether_a_field_applies() -> None:
    scenario = starting_scenario()
    assert field_applies(scenario, "fine_tuning", "lora.rank")
    assert not field_applies(scenario, "serving", "gpu_layers")
    assert not field_applies(scenario, "training", "loss_chunks")
    assert field_applies(scenario, "training", "micro_batch_size")
