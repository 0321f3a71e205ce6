"""The whole layout search of Llama 3.1 405B's training on 1 to 1024 GPUs of ten types ÷ one estimate of its training.

Megatron Core has the most degrees of freedom: tensor, pipeline, context and data parallelism, and three kinds of
checkpointing. The front of every type is found, and every layout of it is legal and estimated.
"""

import itertools

from harness import Ratio, compare
from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.engine.fleet import search
from planner.scenario import Scenario

GPUS = (
    *("h100-sxm5-80gb", "h200-sxm-141gb", "b200", "b300", "mi300x", "mi325x"),
    *("a100-sxm4-80gb", "a100-sxm4-40gb", "gh200-96gb", "l40s"),
)
STEP = {
    "precision": "bf16-fp32-master",
    "activation_profile": "megatron-core",
    "micro_batch_size": 1,
    "gradient_accumulation_steps": 128,
    "sequence_length": 8192,
    "activation_checkpointing": "full",
    "parallelism": {"data": 8, "zero_stage": 1, "sharding_backend": "megatron-distributed-optimizer"},
}


def measure(rounds: int = 1) -> list[Ratio]:
    catalog = load_catalog()
    gpus = [gpu for gpu in GPUS if gpu in catalog.hardware.gpus]
    assert len(gpus) == len(GPUS), set(GPUS) - set(gpus)
    model = {"preset": "meta-llama/Llama-3.1-405B"}
    hardware = {"gpus": ["h100-sxm5-80gb"], "gpus_per_node": 8, "nodes": 128}
    scenario = Scenario.of({"model": model, "phases": {"training": STEP}, "hardware": hardware})
    lengths = itertools.cycle(range(1024, 8192, 16))

    def one() -> object:
        return estimate(scenario.with_value(("phases", "training", "sequence_length"), next(lengths)), catalog)

    def all_of_them() -> object:
        return search(scenario, "training", catalog, gpus, whole_front=True)

    name = "layout search of 405B on 1 to 1024 GPUs of ten types ÷ one estimate"
    return [compare(name, all_of_them, one, limit=20_000, rounds=rounds, calls=(1, 200))]


if __name__ == "__main__":
    for ratio in measure():
        print(ratio.line())
