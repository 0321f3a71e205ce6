"""BERT, RoBERTa and DeBERTa against traces of the real classes.

Source: torch 2.13.0 with transformers 5.24.0 (4.57.6 where stated) on fake CUDA tensors, as in
`resources/evidence/optrace-others.json` and `optrace-transformers4.json`.
"""

from collections.abc import Callable
from typing import Any

import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.scenario import Scenario

BERT = {
    "model_type": "bert", "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
    "num_attention_heads": 12, "vocab_size": 30522, "max_position_embeddings": 4096, "type_vocab_size": 2,
    "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "tie_word_embeddings": True,
}  # fmt: skip
ROBERTA = {
    **BERT, "model_type": "roberta", "vocab_size": 50265, "max_position_embeddings": 4098, "type_vocab_size": 1,
    "num_labels": 2,
}  # fmt: skip
DEBERTA = {
    **BERT, "model_type": "deberta-v2", "vocab_size": 128100, "max_position_embeddings": 512, "type_vocab_size": 0,
    "relative_attention": True, "position_buckets": 256, "pos_att_type": ["p2c", "c2p"], "share_att_key": True,
    "norm_rel_ebd": "layer_norm", "position_biased_input": False, "legacy": True,
}  # fmt: skip
ELECTRA = {**BERT, "model_type": "electra", "embedding_size": 128, "hidden_size": 256, "num_attention_heads": 4}
DISTILBERT = {
    "model_type": "distilbert", "dim": 768, "hidden_dim": 3072, "n_layers": 6, "n_heads": 12, "vocab_size": 30522,
    "max_position_embeddings": 512, "activation": "gelu", "dropout": 0.1, "attention_dropout": 0.1,
}  # fmt: skip
BATCH = {"precision": "fp32", "micro_batch_size": 8, "sequence_length": 512}


@pytest.mark.parametrize(
    ("fields", "traced"),
    [
        ({}, (1347332792, 4408097664, 4908170112, 5408242560, 2245467272)),
        ({"precision": "amp-bf16"}, (1347332792, 3951220704, 4214068308, 4451293156, 2245467272)),
        ({"attention_implementation": "eager"}, (1347332792, 7123647168, 7623719616, 8123792064, 2245467272)),
        ({"attention_mask": "padded"}, (1347365560, 4508793728, 5008866176, 5508938624, 2245500040)),
        ({"activation_checkpointing": "full"}, (1347332792, 2064530112, 2564602560, 3064675008, 2245467272)),
        (
            {
                "precision": "bf16",
                "micro_batch_size": 1,
                "sequence_length": 1024,
                "attention_implementation": "eager",
                "framework_version": "transformers 4.57.6",
            },
            (673682780, 1820894560, 1883403616, 1945912672, 1122750020),
        ),
    ],
)
def test_bert_holds_what_was_traced(
    holds_what_was_traced: Callable[..., None], fields: dict[str, Any], traced: tuple[int, ...]
) -> None:
    holds_what_was_traced(BERT, traced, task="masked-lm", **{**BATCH, **fields})


def test_a_roberta_classifier_holds_what_was_traced(holds_what_was_traced: Callable[..., None]) -> None:
    traced = (1528894776, 4039628544, 4064450040, 4110835208, 2548092232)
    fields = {"precision": "fp32", "micro_batch_size": 32, "sequence_length": 128}
    holds_what_was_traced(ROBERTA, traced, task="sequence-classification", **fields)


@pytest.mark.parametrize(
    ("fields", "traced"),
    [
        ({}, (2214690992, 12557734072, 14656524472, 16755314872, 3691105232)),
        ({"precision": "amp-bf16"}, (2214690992, 11011664056, 12074065792, 13110454460, 3691105232)),
        ({"activation_checkpointing": "full"}, (2214690992, 4542681272, 6641471672, 8740262072, 3691105232)),
    ],
)
def test_deberta_holds_what_was_traced(
    holds_what_was_traced: Callable[..., None], fields: dict[str, Any], traced: tuple[int, ...]
) -> None:
    holds_what_was_traced(DEBERTA, traced, task="masked-lm", **{**BATCH, **fields})


@pytest.mark.parametrize(
    ("config", "task"),
    [
        (BERT, "masked-lm"),
        (BERT, "sequence-classification"),
        (BERT, "question-answering"),
        (BERT, "token-classification"),
        (BERT, "feature-extraction"),
        (ROBERTA, "sequence-classification"),
        (ELECTRA, "sequence-classification"),
        (DISTILBERT, "masked-lm"),
        (DISTILBERT, "sequence-classification"),
        (DEBERTA, "masked-lm"),
    ],
)
def test_gradients_are_as_many_as_parameters(
    has_gradients_for_all: Callable[..., None], config: dict[str, Any], task: str
) -> None:
    has_gradients_for_all(config, task, sequence_length=128)


def test_evaluation_of_a_classifier_frees_each_layer() -> None:
    config = {**BERT, "num_labels": 2}
    document = {
        "model": {"config": config, "task": "sequence-classification"},
        "phases": {"evaluation": {"precision": "fp32", "batch_size": 32, "sequence_length": 128}},
    }
    phase = estimate(Scenario.of(document), load_catalog()).phases["evaluation"]
    assert phase.peak.allocated_bytes == 587455496


def test_training_drops_and_evaluation_does_not() -> None:
    document = {
        "model": {"config": BERT, "task": "masked-lm"},
        "phases": {
            "training": {"precision": "fp32", "sequence_length": 128},
            "evaluation": {"precision": "fp32", "sequence_length": 128},
        },
    }
    phases = estimate(Scenario.of(document), load_catalog()).phases
    masks = {name: [term for term in phase.terms if "dropout mask" in term.name] for name, phase in phases.items()}
    assert masks["training"]
    assert not masks["evaluation"]
