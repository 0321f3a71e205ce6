import csv
import io
import json

import pytest


def test_every_configuration_of_a_small_sweep_is_listed(command, plan_file):
    outcome = command("sweep", plan_file, "--axis", "micro_batch_size=1,2", "--axis", "tensor=1,3")
    assert (outcome.status, outcome.err) == (0, "")
    assert "parallelism.tensor" in outcome.out
    assert outcome.out.count("refused: 3 does not divide 32 attention heads") == 2
    assert outcome.out.count("fits") == 2


def test_a_large_sweep_is_counted_by_choice_and_gpu(command, plan_file):
    outcome = command(
        "sweep", plan_file, "--axis", "micro_batch_size=1:64", "--axis", "sequence_length=128:8192:128",
        "--axis", "zero_stage=0,3", "--axis", "gpu=l40s,h100-sxm5-80gb",
    )  # fmt: skip
    rows = [line.split() for line in outcome.out.splitlines() if "4096" in line]
    assert [row[:3] for row in rows] == [
        ["0", "l40s", "4096"], ["0", "h100-sxm5-80gb", "4096"], ["3", "l40s", "4096"], ["3", "h100-sxm5-80gb", "4096"]
    ]  # fmt: skip


def test_csv_agrees_with_single_estimates(command, plan_file):
    told = command("sweep", plan_file, "--axis", "sequence_length=2048:8192:2048", "--csv")
    rows = list(csv.DictReader(io.StringIO(told.out)))
    assert [row["sequence_length"] for row in rows] == ["2048", "4096", "6144", "8192"]
    plan = json.loads(command("estimate", plan_file, "--json").out)
    peak = plan["phases"]["training"]["peak"]
    row = next(row for row in rows if row["sequence_length"] == "4096")
    assert [int(row[name]) for name in ("process_bytes", "low_bytes", "high_bytes")] == [
        peak["process_bytes"], peak["low_bytes"], peak["high_bytes"]
    ]  # fmt: skip


def test_json_leaves_figures_of_refused_configurations_empty(command, plan_file):
    told = json.loads(command("sweep", plan_file, "--axis", "tensor=2,3", "--json").out)
    assert (told["format"], told["phase"]) == ("vram-planner/sweep", "training")
    legal, refused = told["configurations"]
    assert legal["process_bytes"] > 0
    assert (refused["process_bytes"], refused["verdict"]) == (None, "refused")


def test_another_phase_and_another_gpu_may_be_swept(command, plan_file):
    arguments = ("--phase", "serving", "--gpu", "h200-sxm-141gb", "--axis", "concurrent_sequences=1,32", "--csv")
    rows = list(csv.DictReader(io.StringIO(command("sweep", plan_file, *arguments).out)))
    assert [row["gpu"] for row in rows] == ["h200-sxm-141gb"] * 2
    assert int(rows[0]["process_bytes"]) < int(rows[1]["process_bytes"])


@pytest.mark.parametrize(
    ("axis", "told"),
    [
        ("colour=1", "no field colour"),
        ("micro_batch_size", "An axis is written as"),
        ("micro_batch_size=a:b", "cannot be read"),
        ("micro_batch_size=8:1", "cannot be read"),
        ("compile=maybe", "cannot be read"),
        ("precision=int3", "precision"),
        ("gpu=h1000", "h1000"),
    ],
)
def test_axes_that_cannot_be_swept_are_explained(command, plan_file, axis, told):
    outcome = command("sweep", plan_file, "--axis", axis)
    assert outcome.status == 2
    assert told in outcome.err


def test_a_name_that_several_parts_have_must_say_which(command, plan_file):
    outcome = command("sweep", plan_file, "--phase", "fine-tuning", "--axis", "parameters=cpu")
    assert outcome.status == 2
    assert "offload.parameters" in outcome.err
    assert "Name one of them" in outcome.err
