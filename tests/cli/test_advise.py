import json

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.scenario import Scenario


def write(folder, phases, **hardware):
    path = folder / "plan.vramplan"
    scenario = {
        "format": "vram-planner/scenario", "version": 1, "model": {"preset": "meta-llama/Llama-3.1-8B"},
        "phases": phases, "hardware": {"gpus_per_node": 1, **hardware},
    }  # fmt: skip
    path.write_text(json.dumps(scenario), encoding="utf-8")
    return path


SERVING = {"serving": {"concurrent_sequences": 64, "context_length": 8192}}


def test_advice_for_serving_is_printed_least_disturbing_first(command, tmp_path):
    outcome = command("advise", write(tmp_path, SERVING, gpus=["l40s"]))
    assert (outcome.status, outcome.err) == (0, "")
    assert "Serving on l40s" in outcome.out
    assert "OOM" in outcome.out
    assert outcome.out.index("numerics") < outcome.out.index("capability")
    assert "Largest concurrent requests: 22 requests" in outcome.out


def test_a_phase_that_fits_is_told_its_largest_sizes_alone(command, tmp_path):
    outcome = command("advise", write(tmp_path, {"evaluation": {}}, gpus=["h100-sxm5-80gb"]))
    assert "fits" in outcome.out
    assert "Largest batch per GPU:" in outcome.out
    assert "Disturbs" not in outcome.out


def test_json_holds_edits_that_keep_their_promise_when_applied(command, tmp_path):
    path = write(tmp_path, SERVING, gpus=["l40s"])
    told = json.loads(command("advise", path, "--json").out)
    assert (told["format"], told["version"]) == ("vram-planner/advice", 1)
    advice = told["phases"]["serving"]
    for suggestion in advice["suggestions"]:
        scenario = Scenario.of(json.loads(path.read_text("utf-8")))
        for edit in suggestion["edits"]:
            scenario = scenario.with_value(tuple(edit["path"].split(".")), edit["value"])
        plan = estimate(scenario, load_catalog()).phases["serving"]
        assert plan.peak.process_bytes == suggestion["after"]["process_bytes"]
        assert plan.verdicts["l40s"].verdict == suggestion["after"]["verdict"] == "fits"
        assert all(change["source"] for change in suggestion["changes"])
    assert {limit["field"] for limit in advice["limits"]} == {"concurrent_sequences", "context_length"}


def test_what_to_buy_is_named_where_nothing_fits(command, tmp_path):
    phases = {"training": {"precision": "fp32", "sequence_length": 256}, **SERVING}
    outcome = command("advise", write(tmp_path, phases, gpus=["rtx-3060-12gb"]), "--phase", "training")
    assert "Nothing that was tried fits" in outcome.out
    assert "The smallest need that was found is" in outcome.out
    assert "Serving" not in outcome.out


def test_another_gpu_may_be_asked_about_and_an_unplanned_phase_is_refused(command, tmp_path):
    path = write(tmp_path, SERVING, gpus=["l40s"])
    assert "Serving on h200-sxm-141gb" in command("advise", path, "--gpu", "h200-sxm-141gb").out
    refused = command("advise", path, "--phase", "training")
    assert refused.status == 2
    assert "no phase training" in refused.err
