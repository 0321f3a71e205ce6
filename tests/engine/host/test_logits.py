"""Scores that an evaluation keeps on the host."""

from planner.engine.phases.surroundings import evaluation_surroundings
from planner.engine.plan import by_name
from planner.scenario.hardware import Hardware
from planner.scenario.phases import Evaluation
from planner.units import GB


def ram_of(phase, spec, **fields):
    return by_name(evaluation_surroundings(phase(Evaluation, **fields), spec, Hardware()).host_terms)


def test_evaluation_moves_logits_of_a_batch_to_the_host(phase, llama_8b):
    # huggingface/transformers#25313
    ram = ram_of(phase, llama_8b, batch_size=64, sequence_length=8192)
    assert ram["logits of one batch"] == 64 * 8192 * 128256 * 4


def test_logits_that_are_kept_grow_with_the_samples_and_every_process_has_them_all(phase, llama_8b):
    # huggingface/transformers#25313: 960 GB of RAM end after some twenty samples on eight GPUs
    ram = ram_of(phase, llama_8b, sequence_length=8192, accumulated_samples=20, parallelism={"data": 8})
    assert ram["logits kept"] == 8 * 20 * 8192 * 128256 * 4
    assert ram["logits kept"] + ram["logits being joined"] > 960 * GB


def test_a_thousand_masked_predictions_take_sixty_gigabytes(phase, llama_8b):
    # huggingface/transformers#12878 counts 1000 x 512 x 30 522 numbers ("> 14 Gb"): four bytes each, twice while joined
    ram = ram_of(phase, llama_8b, sequence_length=512, accumulated_samples=1000)
    assert ram["logits kept"] / (128256 / 30522) == 1000 * 512 * 30522 * 4
    assert ram["logits being joined"] == ram["logits kept"]
