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


def test_a_known_server_is_judged_by_its_ram_and_disks(command, plan_file, tmp_path):
    content = json.loads(plan_file.read_text("utf-8"))
    content["hardware"] |= {"host_ram_bytes": 32 * GIB, "nvme_bytes": 10**13}
    file = tmp_path / "small server.vramplan"
    file.write_text(json.dumps(content), "utf-8")
    assert "RAM" not in command("estimate", plan_file).out.partition("judge")[2].partition("All phases")[0]
    told = command("estimate", file).out
    assert "RAM 32.0" in told
    assert "disks of all servers 9,313.2" in told or "disks of all servers 9313.2" in told
    plan = json.loads(command("estimate", file, "--json").out)
    short = plan["phases"]["training"]["host_ram_bytes"] - 32 * GIB
    assert f"OOM +{short / GIB:.1f}" in told


def test_all_phases_together_are_named_with_the_disks_to_buy(command, plan_file):
    plan = json.loads(command("estimate", plan_file, "--json").out)["programme"]
    told = " ".join(command("estimate", plan_file).out.split())
    assert f"{plan['host_ram_bytes'] / GIB:.1f} GiB of RAM in each server" in told
    assert plan["required_storage_bytes"] == -(-plan["storage_bytes"] * 5 // 4)
    assert f"{plan['required_storage_bytes'] / GIB:.1f} GiB or more" in told


def test_parts_of_ram_and_storage_are_shown_when_asked_for(command, plan_file):
    assert "data-loader workers" not in command("estimate", plan_file).out
    told = command("estimate", plan_file, "--host").out
    for text in ("data-loader workers", "raw data", "optimizer states in checkpoints"):
        assert text in told


def test_every_phase_is_told_how_fast_it_is_at_best(command, plan_file):
    outcome = command("estimate", plan_file)
    rough = outcome.out[outcome.out.index("Rough speed at best") :]
    assert "Training: " in rough
    assert "bound by" in rough
    assert "Kaplan" not in rough


def test_formulas_and_sources_of_speeds_are_shown_when_asked_for(command, plan_file):
    shown = " ".join(command("estimate", plan_file, "--speed").out.split())
    assert "FLOP per weight and token" in shown
    assert "arXiv:2001.08361" in shown.replace(" ", "")


def test_json_holds_speeds_when_asked_for(command, plan_file):
    assert "speed" not in json.loads(command("estimate", plan_file, "--json").out)["phases"]["training"]
    told = json.loads(command("estimate", plan_file, "--json", "--speed").out)["phases"]
    assert "speed" not in told["preprocessing"]
    speed = told["training"]["speed"]
    assert speed["rough"] is True
    assert speed["at_best_seconds"] <= speed["in_turn_seconds"]
    for item in speed["passes"]:
        for work in item["works"]:
            amount = 1.0
            for value in work["factors"].values():
                amount *= value
            assert abs(amount - work["amount"]) <= 1e-9 * work["amount"]
            assert work["source"]
