"""Host RAM and storage by phase as charts, from hand-made phases."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from planner.chart.host import NO_SERVER, host_charts, host_ram_chart, storage_chart
from planner.chart.spec import WHOLE, ChartSpec
from planner.chart.table import chart_description, chart_table
from planner.engine.plan import PhaseName, PhasePlan, Plan, Room, Surroundings
from planner.engine.term import term
from planner.units import GIB

Phase = Callable[..., PhasePlan]
PlanMaker = Callable[[Mapping[PhaseName, PhasePlan]], Plan]
HostPlan = Callable[..., Plan]


def chart(made: ChartSpec, phase: str):
    return next(bar for bar in made.bars if bar.phase == phase)


def test_a_bar_holds_what_processes_hold_and_its_whisker_adds_the_page_cache(host_plan: HostPlan) -> None:
    made = host_ram_chart(host_plan())
    data = chart(made, "preprocessing")
    assert [(segment.component, segment.size_bytes) for segment in data.segments] == [
        ("data", 3 * GIB),
        ("overhead", 2 * GIB),
    ]
    training = chart(made, "training")
    assert (training.total_bytes, training.high_bytes) == (60 * GIB, 110 * GIB)
    assert (training.label_above, data.label_above) == ("60.0 + 50.0", "5.0")
    assert training.chip is not None
    assert training.chip.kind == "tight"
    assert training.verdict == "tight, 40.0 GiB free; 50.0 GiB of page cache wanted"
    assert chart(made, "evaluation").note == "no host RAM"


def test_shared_files_count_once_in_all_phases_together(host_plan: HostPlan) -> None:
    made = storage_chart(host_plan())
    whole = made.bars[-1]
    assert whole.phase == WHOLE
    assert {segment.component: segment.size_bytes for segment in whole.segments} == {
        "data": 24 * GIB,
        "weights": 15 * GIB,
        "optimizer_states": 140 * GIB,
    }
    assert chart(made, "evaluation").total_bytes == 15 * GIB


def test_disks_have_a_line_at_four_fifths_and_one_where_they_are_full(host_plan: HostPlan) -> None:
    made = storage_chart(host_plan())
    assert [(line.capacity_bytes, line.judge) for line in made.capacities] == [(160 * GIB, False), (200 * GIB, True)]
    assert [line.label for line in made.capacities] == ["80\u202f% · 160.0 GiB", "NVMe · 200.0 GiB"]
    chip = made.bars[-1].chip
    assert chip is not None
    assert (chip.kind, made.bars[-1].verdict) == ("tight", "tight, 21.0 GiB free")


def test_what_is_too_large_is_hatched_from_the_line_upwards(host_plan: HostPlan) -> None:
    small = host_plan(Room("box", 50 * GIB, 150 * GIB))
    ram, disk = host_charts(small)
    training = chart(ram, "training")
    assert training.overflow == (50 * GIB, 60 * GIB)
    assert training.chip is not None
    assert training.chip.text == "OOM +10.0"
    chip = disk.bars[-1].chip
    assert chip is not None
    assert chip.text == "full +29.0"
    assert disk.bars[-1].verdict == "too large for the disks by 29.0 GiB"


def test_without_a_server_bars_have_no_verdict(host_plan: HostPlan) -> None:
    for made, what in zip(host_charts(host_plan(Room())), ("RAM", "NVMe"), strict=True):
        assert NO_SERVER.format(what=what) in made.subtitle
        assert made.capacities == ()
        assert all(bar.chip is None and bar.overflow is None for bar in made.bars)


def test_a_server_without_figures_leaves_phases_unknown(host_plan: HostPlan) -> None:
    made = host_ram_chart(host_plan(Room("Odd box")))
    assert "RAM of Odd box is not known" in made.subtitle
    chip = chart(made, "training").chip
    assert chip is not None
    assert chip.kind == "unknown"
    assert chart(made, "evaluation").chip is None


def test_a_line_far_above_all_bars_lies_beyond_the_axis(host_plan: HostPlan) -> None:
    ram, disk = host_charts(host_plan(Room("DGX", 2048 * GIB, 30_000 * GIB)))
    assert ram.capacities[0].beyond
    assert ram.axis.maximum_bytes < 200 * GIB
    assert [line.label for line in disk.capacities] == ["NVMe · 30\u202f000 GiB ↑"]
    assert "beyond the axis" in disk.footnote
    near, _ = host_charts(host_plan(Room("DGX", 800 * GIB)))
    assert not near.capacities[0].beyond


def test_a_shared_file_system_judges_in_place_of_nvme(host_plan: HostPlan) -> None:
    made = storage_chart(host_plan(Room("Lustre", 100 * GIB, 500 * GIB, shared=True)))
    assert made.judge is not None
    assert made.judge.name == "Shared storage"
    assert made.subtitle.endswith("judged against Lustre (500.0 GiB shared storage)")


def test_tables_have_the_columns_of_their_resource(host_plan: HostPlan) -> None:
    ram, disk = (chart_table(made).splitlines() for made in host_charts(host_plan()))
    assert ram[0].split("\t")[-3:] == ["Held (GiB)", "With page cache (GiB)", "Verdict"]
    assert ram[2].split("\t")[-3:-1] == ["60.0", "110.0"]
    assert disk[4].split("\t") == ["All phases", "24.0", "15.0", "140.0", "179.0", "tight, 21.0 GiB free"]
    assert disk[-1].split("\t") == ["NVMe", "200.0"]
    assert chart_description(host_ram_chart(host_plan())).endswith("Offered: RAM · 100.0 GiB.")


def test_a_role_on_gpus_of_its_own_has_a_bar_of_its_own(phase: Phase, plan: PlanMaker) -> None:
    def held(gib: float) -> PhasePlan:
        loading = term("weights", "loading the checkpoint", ("host_ram",), "a test", bytes=round(gib * GIB))
        return replace(phase({"weights": 15}), surround=lambda: Surroundings((loading,)))

    tuning = replace(held(60), groups={"reward": held(30)})
    bars = host_ram_chart(plan({"fine_tuning": tuning})).bars
    assert [(bar.name, bar.group, bar.total_bytes) for bar in bars] == [
        ("Fine-tuning", "", 60 * GIB),
        ("Reward model", "reward", 30 * GIB),
    ]
