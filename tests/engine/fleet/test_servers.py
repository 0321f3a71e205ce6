"""How many GPUs stand in one server."""

from planner.catalog import load_catalog
from planner.engine.fleet import search
from planner.engine.fleet.servers import gpus_per_server
from planner.scenario import Scenario
from planner.scenario.hardware import Hardware

CATALOGUE = load_catalog().hardware
PLAN = Hardware(gpus=("a10",), gpus_per_node=3)


def test_the_plan_says_it_of_its_own_gpus_and_servers_of_the_catalogue_of_others() -> None:
    assert gpus_per_server("a10", PLAN, CATALOGUE) == 3
    assert gpus_per_server("h100-sxm5-80gb", PLAN, CATALOGUE) == 8
    assert gpus_per_server("gb200", PLAN, CATALOGUE) == 4  # a compute tray of the rack
    assert gpus_per_server("rtx-4090", PLAN, CATALOGUE) == 4
    assert gpus_per_server("apple-m4-max", PLAN, CATALOGUE) == 1
    assert gpus_per_server("rtx-3060-12gb", PLAN, CATALOGUE) == 8  # no server of the catalogue holds it


def test_tensor_parallelism_stays_within_a_server() -> None:
    """140 GB of bf16 weights take more than four cards of 24 GB, so that copies are cut into stages as well."""
    phases = {"serving": {"engine": "vllm", "concurrent_sequences": 4, "context_length": 2048}}
    plan = Scenario.of({"model": {"preset": "meta-llama/Llama-3.1-70B"}, "phases": phases})
    (answer,) = search(plan, "serving", load_catalog(), ["rtx-4090"]).values()
    assert answer.per_server == 4
    assert answer.best is not None
    assert answer.best.layout.tensor <= 4
    assert answer.best.gpus >= 8
    assert answer.best.gpus % 4 == 0
