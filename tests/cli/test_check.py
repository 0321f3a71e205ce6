import json


def write(folder, **hardware):
    """Evaluating Llama 3.1 8B in bf16: 16.1 GB of weights, and little more."""
    path = folder / "plan.vramplan"
    scenario = {
        "format": "vram-planner/scenario",
        "version": 1,
        "name": "evaluation only",
        "model": {"preset": "meta-llama/Llama-3.1-8B"},
        "phases": {"evaluation": {"batch_size": 1, "sequence_length": 512}},
        "hardware": hardware,
    }
    path.write_text(json.dumps(scenario), encoding="utf-8")
    return path


def test_a_plan_that_fits_has_status_0(command, tmp_path):
    outcome = command("check", write(tmp_path, gpus=["h100-sxm5-80gb"]))
    assert (outcome.status, outcome.err) == (0, "")
    assert "Evaluation on h100-sxm5-80gb: fits" in outcome.out


def test_a_plan_that_runs_out_of_memory_has_status_1_and_says_by_how_much(command, tmp_path):
    outcome = command("check", write(tmp_path, gpus=["t4"]))
    assert outcome.status == 1
    assert "OOM +" in outcome.out


def test_another_gpu_may_judge(command, tmp_path):
    path = write(tmp_path, gpus=["t4"])
    assert command("check", path, "--gpu", "h100-sxm5-80gb").status == 0
    assert command("check", path, "--gpu", "a100-sxm4-80gb/1g.10gb").status == 1


def test_only_the_judge_counts(command, tmp_path):
    assert command("check", write(tmp_path, gpus=["t4", "h100-sxm5-80gb"], judge="h100-sxm5-80gb")).status == 0


def test_an_unknown_gpu_is_refused_with_near_names(command, tmp_path):
    outcome = command("check", write(tmp_path, gpus=["t4"]), "--gpu", "h100-sxm5")
    assert outcome.status == 2
    assert "h100-sxm5-80gb" in outcome.err


def test_a_server_with_too_little_ram_or_disk_has_status_1(command, tmp_path):
    roomy = {"gpus": ["h100-sxm5-80gb"], "host_ram_bytes": 10**12, "nvme_bytes": 10**12}
    assert command("check", write(tmp_path, **roomy)).status == 0
    for field, name in (("host_ram_bytes", "Host RAM"), ("nvme_bytes", "Storage")):
        outcome = command("check", write(tmp_path, **(roomy | {field: 10**9})))
        assert outcome.status == 1
        assert f"{name}: OOM +" in outcome.out
