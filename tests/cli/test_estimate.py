import json

from planner.units import GIB

SIX_PHASES = ["design", "preprocessing", "training", "fine_tuning", "evaluation", "serving"]


def test_json_is_the_plan_in_its_public_format(command, plan_file):
    outcome = command("estimate", plan_file, "--json")
    assert (outcome.status, outcome.err) == (0, "")
    plan = json.loads(outcome.out)
    assert (plan["format"], plan["version"]) == ("vram-planner/plan", 1)
    assert plan["model"]["parameters"] == 8030261248
    assert list(plan["phases"]) == SIX_PHASES


def test_components_sum_to_the_peak_and_moments_to_their_total(command, plan_file):
    plan = json.loads(command("estimate", plan_file, "--json").out)
    for phase in plan["phases"].values():
        assert sum(phase["components"].values()) == phase["peak"]["process_bytes"]
        for moment in phase["moments"].values():
            parts = [size for name, size in moment.items() if name not in ("allocated_bytes", "instant", "overhead")]
            assert sum(parts) == moment["allocated_bytes"]


def test_a_bare_config_is_planned_in_all_six_phases(command, config_file):
    plan = json.loads(command("estimate", config_file, "--json").out)
    assert list(plan["phases"]) == SIX_PHASES
    assert plan["model"]["weight_bytes"] == 2 * 8030261248


def test_the_table_names_every_phase_and_gpu_with_a_verdict(command, plan_file):
    outcome = command("estimate", plan_file)
    assert outcome.status == 0
    for text in ("Design", "preprocessing", "Training", "Fine-tuning", "Evaluation", "Serving"):
        assert text in outcome.out
    assert "l40s (judge)" in outcome.out
    assert "h100-sxm5-80gb" in outcome.out
    assert "free" in outcome.out


def test_the_table_has_no_colour_codes_when_it_goes_to_a_file(command, plan_file):
    assert "\x1b" not in command("estimate", plan_file).out


def test_sizes_can_be_shown_in_decimal_gb(command, plan_file):
    assert "GB" in command("estimate", plan_file, "--unit", "GB").out
    assert "GiB" not in command("estimate", plan_file, "--unit", "GB").out


def test_weights_in_the_table_are_those_of_the_json(command, plan_file):
    plan = json.loads(command("estimate", plan_file, "--json").out)
    weights = plan["phases"]["evaluation"]["components"]["weights"]
    assert f"{weights / GIB:.1f}" in command("estimate", plan_file).out


def test_a_model_folder_is_planned_under_its_name(command, config_file, tmp_path):
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_bytes(config_file.read_bytes())
    plan = json.loads(command("estimate", folder, "--json").out)
    assert plan["name"] == "my-model"
    assert list(plan["phases"]) == SIX_PHASES
