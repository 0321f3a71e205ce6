"""Second lines under phase names."""

from planner.chart.captions import phase_captions
from planner.scenario.phases import Evaluation, FineTuning, Phases, Training
from planner.scenario.serving import Serving


def test_captions_say_the_workload_at_a_glance() -> None:
    phases = Phases(
        training=Training(micro_batch_size=4, sequence_length=4096),
        fine_tuning=FineTuning(method="qlora"),
        evaluation=Evaluation(batch_size=8, sequence_length=1000),
        serving=Serving(concurrent_sequences=32, context_length=131072),
    )
    assert phase_captions(phases) == {
        "training": "4 × 4k",
        "fine_tuning": "QLoRA",
        "evaluation": "8 × 1000",
        "serving": "32 × 128k",
    }


def test_phases_left_out_have_no_caption() -> None:
    assert phase_captions(Phases()) == {}
