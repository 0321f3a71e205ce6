from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.engine.plan import PHASES
from planner.report.tables import build_report
from planner.scenario.files import scenario_from_json


def test_every_phase_of_the_plan_has_a_part_in_order(report, plan):
    assert [part.title for part in report.phases] == [
        "Design & validation",
        "Data preprocessing",
        "Training",
        "Fine-tuning",
        "Evaluation",
        "Serving",
    ]
    assert [part.peak for part in report.phases] == [plan.phases[name].peak for name in PHASES]


def test_terms_at_the_peak_and_rounding_sum_to_the_components(report):
    for part in report.phases:
        for component, size in part.components.items():
            held = sum(int(term.bytes) for term in part.terms if term.component == component and part.at_peak(term))
            assert held + part.rounding.get(component, 0) == size
        assert sum(part.components.values()) == part.peak.process_bytes


def test_no_term_is_left_out(report, plan):
    for name, part in zip(PHASES, report.phases, strict=True):
        assert {id(term) for term in part.terms} == {id(term) for term in plan.phases[name].terms if int(term.bytes)}
        around = (*part.host_terms, *part.cache_terms, *part.storage_terms)
        assert sum(int(term.bytes) for term in part.host_terms) == plan.phases[name].host_ram_bytes
        assert {id(term) for term in around} == {id(term) for term in plan.phases[name].host_terms if int(term.bytes)}


def test_serving_beyond_an_l40s_decides(report):
    assert report.binding == "Serving"
    assert report.summary[0] == (
        "Serving does not fit NVIDIA L40S 48 GB. "
        "Design & validation, Training, Fine-tuning and Evaluation fit NVIDIA L40S 48 GB."
    )
    assert report.summary[1].startswith("Serving decides: each GPU needs 49.2 GiB in prefill")


def test_verdicts_name_each_gpu_and_the_server(report, plan):
    rows = report.phases[2].verdicts
    assert [row.where for row in rows] == [
        "NVIDIA H100 SXM5 80 GB",
        "NVIDIA L40S 48 GB",
        "RAM of the server",
        "disks of the server",
    ]
    assert [row.judge for row in rows] == [False, True, False, False]
    verdict = plan.phases["training"].verdicts["l40s"]
    assert (rows[1].verdict, rows[1].headroom_bytes) == (verdict.verdict, verdict.headroom_bytes)
    assert rows[2].where.startswith("RAM of")


def test_assumptions_hold_what_is_stated_and_the_defaults_beside_it(report):
    found = {row.path: row for row in report.assumptions}
    sequence = found["phases.training.sequence_length"]
    assert (sequence.label, sequence.value, sequence.unit, sequence.stated) == (
        "Sequence length",
        "4\u202f096",
        "tokens",
        True,
    )
    assert found["phases.training.parallelism.zero_stage"].where == "Phases → Training → Parallelism"
    assert not found["phases.fine_tuning.optimizer"].stated
    assert found["model.preset"].value == "meta-llama/Llama-3.1-8B"


def test_each_phase_on_a_gpu_says_how_far_such_estimates_may_be_off(report):
    classes = {part.title: part.evidence.case_class for part in report.phases if part.evidence}
    assert classes["Training"] == "training, sharded"
    assert classes["Serving"] == "serving, unknown version"
    assert "Data preprocessing" not in classes


def test_the_embedded_scenario_gives_the_same_plan(report, plan):
    again = estimate(scenario_from_json(report.scenario_json), load_catalog())
    assert [phase.peak for phase in again.phases.values()] == [phase.peak for phase in plan.phases.values()]


def test_a_plan_without_phases_is_reported_as_such(scenario, created):
    bare = scenario.with_value(("phases",), {})
    report = build_report(bare, estimate(bare, load_catalog()), load_catalog(), created=created)
    assert report.summary == ("No phase is planned.",)
    assert report.binding == ""


def test_roles_on_gpus_of_their_own_have_parts_of_their_own(scenario, created):
    tuned = scenario.with_value(("phases",), {"fine_tuning": {"method": "lora", "objective": "grpo"}})
    report = build_report(tuned, estimate(tuned, load_catalog()), load_catalog(), created=created)
    titles = [part.title for part in report.phases]
    assert titles == ["Fine-tuning", "Fine-tuning: reward model", "Fine-tuning: rollout engine"]
    assert [part.group for part in report.phases] == ["", "reward", "rollout"]


def test_a_plan_that_fits_everywhere_says_so(scenario, created):
    small = scenario.with_value(("phases", "serving"), None)
    report = build_report(small, estimate(small, load_catalog()), load_catalog(), created=created)
    assert report.summary[0] == "Every planned phase fits NVIDIA L40S 48 GB."
    assert report.binding == "Design & validation"


def test_a_model_of_which_only_the_size_is_known_is_marked_as_rough(scenario, created):
    sized = scenario.with_value(("model",), {"parameters": 7 * 10**9})
    sized = sized.with_value(("phases",), {"training": {"sequence_length": 2048}})
    report = build_report(sized, estimate(sized, load_catalog()), load_catalog(), created=created)
    assert report.phases[0].evidence.case_class == "rough"
    assert report.warnings[0].startswith("The model is known approximately")
