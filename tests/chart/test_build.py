"""Plan → ChartSpec: the numbers and texts, without Qt."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from planner.chart.build import lifecycle_chart
from planner.chart.spec import ChartSpec
from planner.engine.plan import PhasePlan, Plan, Verdict
from planner.hardware import ChosenGpu
from planner.units import GB, GIB

Chart = Callable[..., ChartSpec]
Phase = Callable[..., PhasePlan]
MakePlan = Callable[..., Plan]
Gpu = Callable[..., ChosenGpu]


def test_bars_stand_in_the_order_of_a_models_life(mockup: Chart) -> None:
    names = [bar.name for bar in mockup().bars]
    assert names == [
        "Design & validation",
        "Data preprocessing",
        "Training",
        "Fine-tuning",
        "Evaluation",
        "Serving",
    ]


def test_segments_lie_on_one_another_and_sum_to_the_total(mockup: Chart) -> None:
    training = mockup().bars[2]
    assert [segment.component for segment in training.segments] == [
        "weights", "gradients", "optimizer_states", "activations", "logits", "overhead"
    ]  # fmt: skip
    top = 0
    for segment in training.segments:
        assert segment.start_bytes == top
        top = segment.end_bytes
    assert top == training.total_bytes
    assert training.segments[2].start_bytes == 30 * GIB
    assert training.segments[2].label == "11.2 GiB"
    assert training.total_label == "59.1"


def test_a_phase_out_of_memory_says_by_how_much(mockup: Chart) -> None:
    training = mockup().bars[2]
    assert training.chip
    assert (training.chip.kind, training.chip.text, training.chip.short_text) == ("oom", "OOM +14.7", "+14.7")
    assert training.verdict == "out of memory by 14.7 GiB"


def test_the_overflow_reaches_from_the_judges_capacity_to_the_end_of_the_bar(mockup: Chart) -> None:
    training, fine_tuning = mockup().bars[2:4]
    assert training.overflow == (round(44.4 * GIB), training.total_bytes)
    assert fine_tuning.overflow is None


def test_another_judge_flags_other_phases(mockup: Chart) -> None:
    assert [bar.chip.text if bar.chip else "" for bar in mockup(judge="h100").bars] == [""] * 6
    assert [bar.chip.text if bar.chip else "" for bar in mockup(judge="4090").bars] == [
        "", "", "OOM +35.6", "", "", "OOM +26.4"
    ]  # fmt: skip


def test_a_judge_that_is_not_compared_flags_nothing(mockup: Chart) -> None:
    chart = mockup(judge="none")
    assert chart.judge is None
    assert not any(bar.chip or bar.overflow or bar.verdict for bar in chart.bars)


def test_a_phase_without_vram_says_what_it_needs_instead(phase: Phase, plan: MakePlan) -> None:
    chart = lifecycle_chart(
        plan({"preprocessing": phase({}, host_ram=GIB), "evaluation": phase({"weights": 0})}), gpus=(), judge=""
    )
    assert [bar.note for bar in chart.bars] == ["host RAM only", "no VRAM"]
    assert not any(bar.segments or bar.has_band for bar in chart.bars)


def test_tight_and_unknown_are_flagged_apart_from_out_of_memory(phase: Phase, plan: MakePlan, gpu: Gpu) -> None:
    tight = phase({"weights": 79}, capacities={"h100": 80})
    unknown = replace(tight, verdicts={"h100": Verdict("unknown", None, None, missing=("usable memory",))})
    chart = lifecycle_chart(plan({"training": tight, "serving": unknown}), gpus=[gpu("H100", 80, "h100")], judge="h100")
    assert [bar.chip.kind for bar in chart.bars if bar.chip] == ["tight", "unknown"]
    assert [bar.verdict for bar in chart.bars] == ["tight, 1.0 GiB free", "unknown: usable memory is not known"]


def test_the_band_is_the_plans(mockup: Chart) -> None:
    training = mockup().bars[2]
    assert training.low_bytes == round(training.total_bytes * 0.95)
    assert training.top_bytes == training.high_bytes == round(training.total_bytes * 1.05)


def test_capacities_are_sorted_and_one_judges(mockup: Chart) -> None:
    assert [(line.label, line.judge) for line in mockup().capacities] == [
        ("RTX 4090 · 23.5 GiB", False),
        ("L40S · 44.4 GiB", True),
        ("H100 · 79.1 GiB", False),
    ]


def test_a_capacity_line_is_what_the_verdicts_compare_with(phase: Phase, plan: MakePlan, gpu: Gpu) -> None:
    """Headroom lowers the judged capacity below the usable memory; a serving budget does not move the line."""
    phases = {
        "training": phase({"weights": 10}, capacities={"h100": 72}),
        "serving": phase({"weights": 75}, capacities={"h100": 64.8}),
    }
    chart = lifecycle_chart(plan(phases), gpus=[gpu("H100", 80, "h100")], judge="h100")
    assert chart.capacities[0].capacity_bytes == 72 * GIB
    assert chart.bars[1].limit_bytes == round(64.8 * GIB)
    assert chart.bars[1].overflow == (round(64.8 * GIB), 75 * GIB)
    assert chart.bars[0].verdict == "fits, 62.0 GiB free"
    assert chart.bars[1].verdict == "out of memory by 10.2 GiB; this phase gets 64.8 GiB of the GPU"


def test_a_gpu_of_unknown_capacity_has_no_line(mockup: Chart, gpu: Gpu) -> None:
    assert mockup(gpus=[gpu("Mystery", None)], judge="Mystery").capacities == ()


def test_the_same_gpu_twice_has_one_line(mockup: Chart, gpu: Gpu) -> None:
    assert len(mockup(gpus=[gpu("L4", 22), gpu("L4", 22)]).capacities) == 1


def test_the_legend_names_what_occurs_in_the_order_of_the_stack(mockup: Chart) -> None:
    names = [entry.name for entry in mockup().legend]
    assert names == [
        "Weights", "Gradients", "Optimizer states", "Activations", "Logits & loss", "KV cache", "Overhead"
    ]  # fmt: skip
    assert len({entry.colour for entry in mockup().legend}) == 7


def test_the_axis_reaches_beyond_everything_and_names_its_unit_as_plain_text(mockup: Chart) -> None:
    axis = mockup().axis
    assert axis.label == "VRAM per GPU (GiB)"
    assert [tick.label for tick in axis.ticks] == ["0", "20", "40", "60", "80"]
    assert axis.ticks[2].value_bytes == 40 * GIB
    assert axis.maximum_bytes >= 79.1 * GIB


def test_gb_changes_every_text_and_no_byte(mockup: Chart) -> None:
    gib, gb = mockup(), mockup(unit="GB")
    assert [bar.total_bytes for bar in gib.bars] == [bar.total_bytes for bar in gb.bars]
    training = gb.bars[2]
    assert training.total_label == f"{59.1 * GIB / GB:.1f}" == "63.5"
    assert training.segments[0].label == "16.1 GB"
    assert gb.capacities[1].label == "L40S · 47.7 GB"
    assert gb.axis.label == "VRAM per GPU (GB)"
    assert gb.axis.ticks[1].value_bytes % GB == 0


def test_the_subtitle_names_plan_and_judge_unless_given(mockup: Chart) -> None:
    assert mockup().subtitle == "Llama 3 8B · judged against L40S (44.4 GiB usable)"
    assert mockup(judge="none").subtitle == "Llama 3 8B"
    assert mockup(subtitle="as planned").subtitle == "as planned"


def test_texts_lose_what_no_chart_can_show(mockup: Chart) -> None:
    chart = mockup(title="two\nlines\tand\x00 a \ud83d half", captions={"serving": "32\r\n×  8k"})
    assert chart.title == "two lines and a half"
    assert chart.bars[-1].caption == "32 × 8k"


def test_an_empty_plan_has_an_axis_and_no_bars(plan: MakePlan) -> None:
    chart = lifecycle_chart(plan({}), gpus=(), judge="")
    assert chart.bars == chart.capacities == chart.legend == ()
    assert chart.axis.maximum_bytes == GIB


@pytest.mark.parametrize("gib", [1e-9, 1e-4, 0.02, 3, 10_240, 1e12])
def test_any_size_of_plan_has_a_readable_axis(phase: Phase, plan: MakePlan, gib: float) -> None:
    chart = lifecycle_chart(plan({"training": phase({"weights": gib})}), gpus=(), judge="")
    assert 3 <= len(chart.axis.ticks) <= 8
    labels = [tick.label for tick in chart.axis.ticks]
    assert len(set(labels)) == len(labels)
    assert chart.axis.ticks[-1].value_bytes <= chart.axis.maximum_bytes + 1
