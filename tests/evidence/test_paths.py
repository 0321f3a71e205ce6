from planner.evidence.paths import value_at

PLAN = {
    "model": {"parameters": 8030261248},
    "phases": {
        "serving": {
            "verdicts": {
                "rtx-4090": {"verdict": "oom"},
                "a100-sxm4-80gb/3g.40gb": {"verdict": "fits"},
                "my.card": {"verdict": "tight"},
            },
            "warnings": ["first", "second"],
            "storage_bytes": 0,
        }
    },
}


def test_a_path_names_each_step():
    assert value_at(PLAN, "model.parameters") == 8030261248


def test_ids_with_dashes_are_found():
    assert value_at(PLAN, "phases.serving.verdicts.rtx-4090.verdict") == "oom"


def test_ids_with_dots_are_found():
    assert value_at(PLAN, "phases.serving.verdicts.a100-sxm4-80gb/3g.40gb.verdict") == "fits"
    assert value_at(PLAN, "phases.serving.verdicts.my.card.verdict") == "tight"


def test_a_key_that_begins_another_does_not_hide_it():
    assert value_at({"a": {"x": 1}, "a.b": {"c": 2}}, "a.b.c") == 2


def test_a_list_item_is_named_by_its_index():
    assert value_at(PLAN, "phases.serving.warnings.1") == "second"
    assert value_at(PLAN, "phases.serving.warnings.2") is None


def test_zero_is_a_value():
    assert value_at(PLAN, "phases.serving.storage_bytes") == 0


def test_what_the_plan_does_not_hold_is_none():
    assert value_at(PLAN, "phases.training.peak.allocated_bytes") is None
    assert value_at(PLAN, "model.parameters.more") is None
    assert value_at(PLAN, "") is None
