import json

SCENARIO = {
    "format": "vram-planner/scenario",
    "version": 1,
    "name": "x",
    "model": {"preset": "meta-llama/Llama-3.1-8B"},
    "phases": {"evaluation": {"batch_size": 1, "sequence_length": 512}},
    "hardware": {"gpus": ["t4", "h100-sxm5-80gb"]},
}
EXPECT = [
    {"path": "model.parameters", "value": 8030261248},
    {"path": "model.parameters", "value": 4015130624},
    {"path": "phases.evaluation.verdicts.t4.verdict", "value": "oom"},
    {"path": "phases.evaluation.verdicts.h100-sxm5-80gb.verdict", "value": "oom"},
    {"path": "phases.training.peak.allocated_bytes", "value": 1},
]
GOOD = {"id": "good", "source": "by hand", "scenario": SCENARIO, "expect": EXPECT, "confidence": "high"}
BAD = {**GOOD, "id": "bad", "scenario": {**SCENARIO, "model": {"preset": "none"}}}


def corpus(folder, *cases):
    path = folder / "corpus.json"
    content = {"format": "vram-planner/corpus", "version": 1, "name": "mine", "cases": cases}
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_the_score_has_its_public_format(command, tmp_path):
    outcome = command("validate", corpus(tmp_path, GOOD), "--json")
    assert (outcome.status, outcome.err) == (0, "")
    score = json.loads(outcome.out)
    assert (score["format"], score["version"]) == ("vram-planner/score", 1)
    (case,) = score["cases"]
    assert (case["id"], case["failure"]) == ("good", None)
    assert case["results"] == [
        {"path": "model.parameters", "expected": 8030261248, "estimated": 8030261248, "error": 0.0},
        {"path": "model.parameters", "expected": 4015130624, "estimated": 8030261248, "error": 1.0},
        {"path": "phases.evaluation.verdicts.t4.verdict", "expected": "oom", "estimated": "oom", "error": None},
        {
            "path": "phases.evaluation.verdicts.h100-sxm5-80gb.verdict",
            "expected": "oom",
            "estimated": "fits",
            "error": None,
        },
        {"path": "phases.training.peak.allocated_bytes", "expected": 1, "estimated": None, "error": None},
    ]
    summary = {row["path"]: row for row in score["summary"]}
    assert (summary["model.parameters"]["count"], summary["model.parameters"]["median"]) == (2, 0.5)
    assert summary["phases.evaluation.verdicts.*.verdict"]["agreement"] == 0.5
    assert summary["phases.training.peak.allocated_bytes"]["missing"] == 1


def test_a_case_that_cannot_be_planned_does_not_hide_the_others(command, tmp_path):
    outcome = command("validate", corpus(tmp_path, BAD, {"id": "broken"}, GOOD), "--json")
    assert outcome.status == 2
    bad, broken, good = json.loads(outcome.out)["cases"]
    assert "none" in bad["failure"]
    assert broken["failure"]
    assert good["failure"] is None


def test_several_corpora_give_one_score(command, tmp_path):
    path = corpus(tmp_path, GOOD)
    score = json.loads(command("validate", path, path, "--json").out)
    assert [case["id"] for case in score["cases"]] == ["good", "good"]
    assert score["summary"][0]["count"] == 4


def test_tables_show_cases_summary_and_failures(command, tmp_path):
    outcome = command("validate", corpus(tmp_path, BAD, GOOD))
    assert outcome.status == 2
    for text in ("mine", "good", "8 030 261 248", "+100.00%", "differs", "failed", "bad", "Median", "Agree", "50%"):
        assert text in outcome.out


def test_the_summary_alone_can_be_asked_for(command, tmp_path):
    assert "8 030 261 248" not in command("validate", corpus(tmp_path, GOOD), "--summary").out
