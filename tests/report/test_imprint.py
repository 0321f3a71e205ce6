from dataclasses import replace

from planner.chart.host import host_charts
from planner.chart.timeline import timeline_chart
from planner.report.imprint import imprint


def test_the_model_each_drawn_phase_and_the_date_are_said(scenario, plan, report, created):
    lines = imprint(scenario, plan, report.charts[:1], created)
    assert lines[0] == "Plan: Llama 3.1 8B on one node · 8.03 B parameters"
    assert [line.split(":")[0] for line in lines[1:-1]] == [
        "Design & validation", "Data preprocessing", "Training", "Fine-tuning", "Evaluation", "Serving",
    ]  # fmt: skip
    assert lines[-1].startswith("2026-12-01 · VRAM Planner ")
    assert lines[-1].endswith(f"hardware catalogue of {report.catalogue}")


def test_what_decides_is_said_and_what_is_usual_is_not(scenario, plan, report, created):
    training = next(line for line in imprint(scenario, plan, report.charts, created) if line.startswith("Training"))
    assert "optimizer AdamW" in training
    assert "micro-batch per GPU 1 sequences" in training
    assert "ZeRO stage 3" in training
    assert "(adamw)" not in training
    assert "parallelism Tensor" not in training


def test_a_chart_of_one_phase_says_that_phase_alone(scenario, plan, created):
    chart = timeline_chart(plan, "serving", gpus=(), judge="")
    lines = imprint(scenario, plan, (chart,), created)
    assert len(lines) == 3
    assert lines[1].startswith("Serving: engine vLLM")


def test_all_phases_together_are_no_phase_of_their_own(scenario, plan, created):
    assert len(imprint(scenario, plan, host_charts(plan), created)) == 8


def test_a_plan_without_a_name_says_so(scenario, plan, report, created):
    lines = imprint(scenario, replace(plan, name=""), report.charts, created)
    assert lines[0].startswith("Plan: without a name")
