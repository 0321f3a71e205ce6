"""A sweep of 1 000 000 training configurations, per configuration ÷ one estimate, and ÷ one analysis of llm-analysis.

Every configuration gets what its process needs, the band around that, and a verdict on its GPU. Checkpointing, ZeRO
stage and tensor parallelism are looped over, micro-batch size and sequence length are arrays, five GPUs are judged.
"""

import itertools
import logging
from pathlib import Path

from harness import Ratio, compare
from planner.catalog import Catalog, load_catalog
from planner.engine.estimate import estimate
from planner.engine.sweep import GPU, Axis, count, sweep
from planner.scenario import Scenario, load_scenario

DATA = Path(__file__).resolve().parent.parent / "cli" / "data"
STEP = ("phases", "training")
AXES = (
    Axis((*STEP, "activation_checkpointing"), ("none", "full")),
    Axis((*STEP, "parallelism", "zero_stage"), (0, 1, 2, 3)),
    Axis((*STEP, "parallelism", "tensor"), (1, 2, 4, 8)),
    Axis((*STEP, "micro_batch_size"), tuple(range(1, 51))),
    Axis((*STEP, "sequence_length"), tuple(range(64, 64 * 126, 64))),
    Axis(GPU, ("h100-sxm5-80gb", "h200-sxm-141gb", "a100-sxm4-80gb", "l40s", "rtx-4090")),
)
CONFIGURATIONS = count(AXES)


def sweep_all(scenario: Scenario, catalog: Catalog) -> int:
    """Judge all configurations; returns how many were computed."""
    return sum(len(block) for block in sweep(scenario, "training", catalog, AXES))


def estimates(scenario: Scenario) -> list[Scenario]:
    """The training phase alone, at many lengths."""
    alone = scenario.with_value(("phases",), {"training": scenario.phases.training.model_dump(exclude_unset=True)})
    return [alone.with_value((*STEP, "sequence_length"), length) for length in range(1024, 8192, 16)]


def measure(rounds: int = 7) -> list[Ratio]:
    scenario, catalog = load_scenario(DATA / "llama.vramplan"), load_catalog()
    assert sweep_all(scenario, catalog) == CONFIGURATIONS == 1_000_000
    ours = itertools.cycle(estimates(scenario))

    def all_of_them() -> object:
        return sweep_all(scenario, catalog)

    single = compare("", all_of_them, lambda: estimate(next(ours), catalog), limit=None, rounds=rounds, calls=(1, 400))
    peer = compare("", all_of_them, _peer(), limit=None, rounds=rounds, calls=(1, 400))
    return [
        Ratio(f"sweep, per configuration ÷ {name}", ratio.ours / CONFIGURATIONS, ratio.theirs, limit)
        for name, ratio, limit in (
            ("training estimate", single, 1 / 500),
            ("training analysis of llm-analysis", peer, 1 / 1000),
        )
    ]


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
