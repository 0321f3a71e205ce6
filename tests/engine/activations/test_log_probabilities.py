"""TRL's `selective_log_softmax`, against what torch 2.13's allocator told of it.

Measured with torch.profiler (`profile_memory=True`) on the CPU, forward and backward over 100 of 101 positions and
5,000 tokens, as multiples of one sequence's logits. A CPU adds buffers in fp32 to `scatter_add_` of 16 bits, which a
GPU does not; those instants are left out.
"""

from typing import Any

import pytest

from planner.engine.phases.step import plan_step
from planner.engine.traced import SettledPhase
from planner.model.resolve import resolve_model
from planner.scenario.model_source import SizeModel
from planner.scenario.phases import FineTuning

TOKENS, VOCABULARY = 101, 5_000
MEASURED = {
    ("bf16", 2): {"forward": 3.981, "backward": 3.98},
    ("bf16", 4): {"forward": 7.962, "backward": 7.96},
    ("fp32", 2): {"forward": 2.991, "backward": 5.961},
    ("fp32", 4): {"forward": 4.992, "backward": 11.921},
}


def step(sequences: int, precision: str, **fields: Any) -> SettledPhase:
    spec = resolve_model(SizeModel(parameters=1_000_000, vocab_size=VOCABULARY))
    phase = FineTuning(
        method="full",
        base_quantization=None,
        objective="grpo",
        precision=precision,
        micro_batch_size=sequences,
        sequence_length=TOKENS,
        attention_implementation="sdpa",
        **fields,
    )
    return plan_step(phase, spec).settle()


@pytest.mark.parametrize(("precision", "sequences"), MEASURED)
def test_logits_and_what_is_made_of_them_take_what_torch_allocated(precision: str, sequences: int) -> None:
    settled = step(sequences, precision)
    one = TOKENS * VOCABULARY * {"bf16": 2, "fp32": 4}[precision]
    found = {name: settled.moments[name].components["logits"] / one for name in ("forward", "backward")}
    # What torch reported includes scores and ids of a few bytes per token.
    assert found == pytest.approx(MEASURED[precision, sequences], rel=0.005)


def test_supervised_tuning_keeps_its_cross_entropy_and_a_fused_loss_is_left_alone() -> None:
    def labels(**fields: Any) -> set[str]:
        return {item.name for item in step(2, "bf16", **fields).terms() if item.component == "logits"}

    assert any("log-probabilities" in name for name in labels())
    assert not any("log-probabilities" in name for name in labels(loss_implementation="fused_cross_entropy"))
