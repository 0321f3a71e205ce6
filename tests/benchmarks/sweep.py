"""A sweep of 100 000 training configurations, per configuration ÷ one training analysis of llm-analysis.

Precision, checkpointing, attention and ZeRO stage are looped over; micro-batch size and sequence length are arrays.
"""

import itertools
import logging
from pathlib import Path

import numpy as np

from harness import Ratio, compare
from planner.engine.phases.step import plan_step
from planner.model import resolve_model
from planner.model.spec import ModelSpec
from planner.scenario import Scenario, load_scenario

DATA = Path(__file__).resolve().parent.parent / "cli" / "data"
CATEGORIES = {
    ("precision",): ("bf16", "amp-bf16"),
    ("activation_checkpointing",): ("none", "full"),
    ("attention_implementation",): ("sdpa", "eager"),
    ("parallelism", "zero_stage"): (0, 1, 2, 3),
}
BATCHES = np.arange(1, 26)
LENGTHS = np.arange(64, 64 * 126, 64)
CONFIGURATIONS = 2 * 2 * 2 * 4 * len(BATCHES) * len(LENGTHS)


def sweep(scenario: Scenario, spec: ModelSpec) -> int:
    """Peaks of all configurations; returns how many were computed."""
    batches, lengths = (axis.ravel() for axis in np.meshgrid(BATCHES, LENGTHS))
    done = 0
    for choice in itertools.product(*CATEGORIES.values()):
        chosen = scenario
        for path, value in zip(CATEGORIES, choice, strict=True):
            chosen = chosen.with_value(("phases", "training", *path), value)
        peaks = plan_step(chosen.phases.training, spec, micro_batch_size=batches, sequence_length=lengths).peak_bytes()
        done += len(peaks)
    return done


def measure(rounds: int = 7) -> list[Ratio]:
    scenario = load_scenario(DATA / "llama.vramplan")
    spec = resolve_model(scenario.model)
    assert sweep(scenario, spec) == CONFIGURATIONS == 100_000
    ratio = compare("", lambda: sweep(scenario, spec), _peer(), limit=None, rounds=rounds, calls=(1, 200))
    name = "sweep, per configuration ÷ training analysis of llm-analysis"
    return [Ratio(name, ratio.ours / CONFIGURATIONS, ratio.theirs, 1 / 300)]


def _peer():
    """One training analysis of Llama 3.1 8B under ZeRO-3 with full recomputation."""
    from llm_analysis.analysis import ActivationRecomputation, DSZeRO, LLMAnalysis, logger
    from llm_analysis.config import ModelConfig, ParallelismConfig, get_dtype_config_by_name, get_gpu_config_by_name

    logger.setLevel(logging.ERROR)
    model = ModelConfig(
        name="llama-3.1-8b",
        num_layers=32,
        n_head=32,
        hidden_dim=4096,
        vocab_size=128256,
        max_seq_len=8192,
        num_key_value_heads=8,
        ffn_embed_dim=14336,
        expansion_ratio=3.5,
    )
    analysis = LLMAnalysis(
        model,
        get_gpu_config_by_name("a100-sxm-80gb"),
        get_dtype_config_by_name("w16a16e16"),
        ParallelismConfig(tp_size=1, pp_size=1, dp_size=8, sp_size=1),
        flops_efficiency=0.5,
    )
    lengths = itertools.cycle(range(1024, 8192, 64))

    def analyse() -> object:
        return analysis.training(
            batch_size_per_gpu=1,
            gradient_accumulation_steps=16,
            seq_len=next(lengths),
            activation_recomputation=ActivationRecomputation.FULL,
            ds_zero=DSZeRO(3),
            mlp_gated_linear_units=True,
        )

    return analyse


if __name__ == "__main__":
    for ratio in measure():
        print(ratio.line())
