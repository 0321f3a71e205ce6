"""Checkpoints against published sizes, and what writing them costs."""

import pytest

from planner.engine.optimizer import ParameterTensor
from planner.engine.phases.surroundings import trained_tensors, training_surroundings
from planner.engine.plan import by_name
from planner.engine.storage import CheckpointPlan, checkpoint_terms, required_capacity, written
from planner.model.counts import lora_parameters
from planner.scenario.hardware import Hardware
from planner.scenario.phases import FineTuning, Training

PARAMETERS = 8_030_261_248
TENSORS = (ParameterTensor((1000, 1000), 1, 2),)
ONE = CheckpointPlan(kept=0)


def test_a_mixed_precision_adamw_checkpoint_takes_14_bytes_per_parameter(total):
    # NVIDIA-NeMo/Speech#9967, verl-tool#106: 12 to 14 bytes instead of 2
    assert total(checkpoint_terms(TENSORS, "adamw", "foreach", ONE, master_weights=True)) == 14 * 10**6
    assert total(checkpoint_terms(TENSORS, "adamw", "foreach", CheckpointPlan(False, 0))) == 2 * 10**6


def test_one_step_of_a_7b_model_with_its_optimizer_exceeds_100_gb(total):
    # TIGER-AI-Lab/verl-tool#106: "one step > 100 GB"; Qwen2.5-7B has 7.6 B parameters
    tensors = (ParameterTensor((7_615_616_512,), 1, 2),)
    assert total(checkpoint_terms(tensors, "adamw", "foreach", ONE, master_weights=True)) == 14 * 7_615_616_512
    assert 14 * 7_615_616_512 > 100 * 10**9


def test_those_kept_and_the_one_being_written_lie_on_disk_together(total):
    plan = CheckpointPlan(kept=3, milestones=2)
    assert total(checkpoint_terms(TENSORS, "sgd", None, plan)) == (3 + 1 + 2) * 2 * 10**6


def test_writing_takes_the_bytes_over_the_speed_of_all_that_write():
    plan = CheckpointPlan(kept=0, writers=4, minutes_between=1, write_gb_per_s=0.001)
    told = written(checkpoint_terms(TENSORS, "sgd", None, plan), plan)
    assert told["write_seconds"] == pytest.approx(2e6 / 4e6)
    assert told["share_of_training"] == pytest.approx(0.5 / 60.5, abs=1e-6)
    assert "write_seconds" not in written((), CheckpointPlan())


def test_every_server_writes_its_shard(phase, llama_8b):
    fields = {"checkpoints": {"write_gb_per_s": 2.0}, "parallelism": {"data": 16, "zero_stage": 3}}
    sharded = training_surroundings(phase(Training, **fields), llama_8b, Hardware(gpus_per_node=8)).told["checkpoints"]
    assert sharded["writers"] == 2
    assert sharded["write_seconds"] == pytest.approx(3 * 2 * PARAMETERS / 4e9, rel=1e-3)


def test_lora_checkpoints_hold_adapters_alone(phase, llama_8b):
    tuned = phase(FineTuning, method="lora")
    trained = trained_tensors(tuned, llama_8b)
    assert sum(tensor.elements * tensor.multiplicity for tensor in trained) == lora_parameters(llama_8b, 16)
    disk = by_name(training_surroundings(tuned, llama_8b, Hardware()).storage_terms)
    assert disk["weights in checkpoints"] == 2 * 4 * lora_parameters(llama_8b, 16)
    assert disk["base model"] == 2 * PARAMETERS


def test_exports_and_logs_are_stored_too(phase, llama_8b):
    step = phase(Training, checkpoints={"exports": ["bf16", "q4_k_m"], "log_bytes": 10**9})
    disk = by_name(training_surroundings(step, llama_8b, Hardware()).storage_terms)
    assert disk["exported as bf16"] == 2 * PARAMETERS
    assert disk["exported as q4_k_m"] == pytest.approx(4917737554, rel=0.0015)
    assert disk["logs"] == 10**9


def test_states_on_nvme_are_storage(phase, llama_8b):
    step = phase(Training, offload={"optimizer": "nvme"})
    disk = by_name(training_surroundings(step, llama_8b, Hardware()).storage_terms)
    assert disk["optimizer states on NVMe"] == 12 * PARAMETERS


def test_four_fifths_of_a_file_system_can_be_relied_on():
    # stas00/ml-engineering, storage: 100 TB need 125 TB
    assert required_capacity(100 * 10**12) == 125 * 10**12
