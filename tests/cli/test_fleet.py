import json

import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.scenario import Scenario

PLAN = {
    "format": "vram-planner/scenario", "version": 1, "model": {"preset": "meta-llama/Llama-3.1-8B"},
    "phases": {
        "training": {"precision": "bf16", "micro_batch_size": 1, "sequence_length": 2048, "parallelism": {"data": 4}},
        "serving": {"concurrent_sequences": 64, "context_length": 8192},
    },
    "hardware": {"gpus": ["h100-sxm5-80gb"]},
}  # fmt: skip


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "plan.vramplan"
    path.write_text(json.dumps(PLAN), encoding="utf-8")
    return path


def test_gpus_are_listed_with_their_numbers_and_layouts(command, plan):
    outcome = command("fleet", plan, "--gpu", "h100-sxm5-80gb", "--gpu", "t4")
    assert (outcome.status, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    h100, t4 = (next(number for number, line in enumerate(lines) if name in line) for name in ("H100", "T4"))
    assert h100 < t4
    assert "cannot compute in bf16" in " ".join(" ".join(lines[t4:]).split())


def test_the_plan_of_every_answer_fits_as_it_is_told(command, plan):
    told = json.loads(command("fleet", plan, "--gpu", "l40s", "--gpu", "rtx-4090", "--json").out)
    assert (told["format"], told["version"]) == ("vram-planner/fleet", 1)
    for row in told["gpus"]:
        for phase, answer in row["phases"].items():
            best = answer["best"]
            planned = estimate(Scenario.of(best["scenario"]), load_catalog()).phases[phase]
            assert planned.verdicts[row["gpu"]].verdict == "fits"
            assert planned.peak.process_bytes == best["process_bytes"]
        assert row["gpus"] == max(answer["best"]["gpus"] for answer in row["phases"].values())
        assert row["phases"][row["binding_phase"]]["best"]["gpus"] == row["gpus"]


def test_gpus_are_sorted_by_what_is_asked_for(command, plan):
    ids = ("--gpu", "l40s", "--gpu", "h100-sxm5-80gb", "--gpu", "t4", "--phase", "serving", "--json")
    by_number = json.loads(command("fleet", plan, *ids, "--sort", "gpus").out)["gpus"]
    assert by_number[0]["gpu"] == "h100-sxm5-80gb"
    by_name = [row["name"] for row in json.loads(command("fleet", plan, *ids, "--sort", "name").out)["gpus"]]
    assert by_name == sorted(by_name, key=lambda name: name.removeprefix("NVIDIA "))


def test_a_wish_that_no_gpu_meets_is_told(command, plan):
    outcome = command("fleet", plan, "--vendor", "acme")
    assert outcome.status == 2
    assert "No GPU of the catalogue is like that" in outcome.err


def test_a_phase_that_is_not_planned_is_told(command, plan):
    outcome = command("fleet", plan, "--phase", "design")
    assert outcome.status == 2
    assert "The plan has no phase design" in outcome.err
