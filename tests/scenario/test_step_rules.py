from typing import Any

import pytest

from planner.hardware import load_hardware
from planner.model import resolve_model
from planner.scenario import Scenario, validate


def test_a_sequence_beyond_a_learned_table_cannot_run(check: Any) -> None:
    found = check("training", model="gpt2", sequence_length=2048)
    assert found == {
        "error sequence_length": "2\u202f048 tokens are more than the 1\u202f024 positions that the model is built for."
    }


def test_a_sequence_beyond_rotary_positions_is_unwise(check: Any) -> None:
    assert check("training", sequence_length=131_072) == {}
    found = check("training", sequence_length=131_073)
    assert found["warning sequence_length"].endswith("it runs, but was not trained for that.")


@pytest.mark.parametrize("phase", ["design", "training", "fine_tuning", "evaluation"])
def test_flash_attention_has_no_fp32(check: Any, phase: str) -> None:
    found = check(phase, precision="fp32", attention_implementation="flash_attention_2")
    assert found == {
        "error attention_implementation": "FlashAttention 2 runs in 16 bits only; fp32 would fall back or fail. "
        "Use sdpa or eager."
    }


def test_flash_attention_under_autocast_is_fine(check: Any) -> None:
    assert check("training", precision="amp-bf16", attention_implementation="flash_attention_2") == {}


def test_gradients_used_up_in_backward_can_be_neither_accumulated_nor_clipped(check: Any) -> None:
    found = check("training", optimizer_in_backward=True, gradient_accumulation_steps=4, gradient_clipping=True)
    assert sorted(found.values()) == [
        "Gradients that are used up during backward cannot be accumulated.",
        "Gradients that are used up during backward cannot be clipped by their common norm.",
    ]


def test_an_optimizer_has_only_its_own_implementations(check: Any) -> None:
    """torch.optim.Adafactor has no fused form."""
    found = check("training", optimizer="adafactor", optimizer_implementation="fused")
    assert found["error optimizer_implementation"].startswith("Adafactor has no such implementation. Use for-loop")
    assert check("training", optimizer="adafactor", optimizer_implementation="transformers") == {}
    assert "warning optimizer_implementation" in check(
        "training", optimizer="adamw_8bit", optimizer_implementation="fused"
    )


def test_a_quantized_base_belongs_to_qlora(check: Any) -> None:
    assert check("fine_tuning", method="qlora", base_quantization="nf4") == {}
    assert check("fine_tuning", method="full", base_quantization="nf4") == {
        "error base_quantization": "This does not apply: only QLoRA trains beside quantized weights."
    }


def test_adapters_that_are_not_there_cannot_be_switched_off(check: Any) -> None:
    found = check("fine_tuning", objective="grpo", method="full", roles={"reference": "adapters-off"})
    assert list(found) == ["error roles.reference"]
    assert not check("fine_tuning", objective="grpo")


def test_more_layers_cannot_be_trained_than_there_are(check: Any) -> None:
    found = check("fine_tuning", method="last_layers", trained_layers=33)
    assert found == {"error trained_layers": "33 is out of range. Use 1 to 32 layers."}


@pytest.mark.parametrize(
    ("fields", "field", "why"),
    [
        ({"selective_policy": "op-sac"}, "selective_policy", "checkpointing is not selective"),
        ({"checkpointing_reentrant": True}, "checkpointing_reentrant", "checkpointing is off"),
        ({"loss_chunks": 8}, "loss_chunks", "the loss is not chunked"),
        ({"fp8_recipe": "rowwise"}, "fp8_recipe", "the precision is not fp8"),
        ({"parallelism": {"sequence_parallel": True}}, "parallelism.sequence_parallel", "tensor parallel is 1"),
        ({"parallelism": {"gradient_as_bucket_view": True, "zero_stage": 1, "data": 2}}, None, "only DDP has buckets"),
        ({"moe_token_dispatcher": "allgather"}, "moe_token_dispatcher", "the model has no experts"),
        (
            {"tiled_mlp": True, "activation_profile": "torchtitan"},
            "tiled_mlp", "only DeepSpeed tiles feed-forwards, those of transformers",
        ),
        (
            {"loss_implementation": "chunked", "activation_profile": "megatron-core"},
            "loss_implementation", "Megatron Core has a loss of its own",
        ),
    ],
)  # fmt: skip
def test_what_changes_nothing_is_warned_of(check: Any, fields: dict[str, Any], field: str | None, why: str) -> None:
    field = field or "parallelism.gradient_as_bucket_view"
    assert check("training", **fields) == {f"warning {field}": f"This changes nothing: {why}."}


def test_a_default_that_is_stated_changes_nothing_silently(check: Any) -> None:
    assert check("training", checkpointing_reentrant=False, parallelism={"sequence_parallel": False}) == {}


@pytest.mark.parametrize("field", ["tensor", "pipeline", "context"])
def test_litgpt_trains_with_data_parallelism_alone(check: Any, field: str) -> None:
    found = check("training", activation_profile="litgpt", parallelism={field: 2})
    assert found[f"error parallelism.{field}"].startswith("This does not apply: LitGPT trains ")
    assert not [key for key in check("training", parallelism={field: 2}) if key.startswith("error")]


def test_only_megatron_shares_experts_among_fewer_ranks(check: Any) -> None:
    found = check("training", parallelism={"expert_tensor": 1})
    assert found["error parallelism.expert_tensor"] == "This does not apply: the model has no experts."


def test_pytorch_s_context_parallelism_exchanges_no_heads(check: Any) -> None:
    spread = {"context": 2, "context_parallel_mode": "ulysses"}
    found = check("training", activation_profile="torchtitan", parallelism=spread)
    assert found["error parallelism.context_parallel_mode"].startswith("This does not apply: PyTorch's own")
    assert not check("training", parallelism=spread)


def test_megatron_s_experts_need_sequence_parallelism_beside_tensor_parallelism() -> None:
    dimensions = {
        "layers": 4, "hidden_size": 256, "attention_heads": 8, "vocab_size": 1000, "experts": 8,
    }  # fmt: skip
    for split, expected in ((False, 1), (True, 0)):
        step = {"activation_profile": "megatron-core", "parallelism": {"tensor": 2, "sequence_parallel": split}}
        scenario = Scenario.of({"model": {"dimensions": dimensions}, "phases": {"training": step}})
        issues = validate(scenario, resolve_model(scenario.model, {}), None)
        assert sum(issue.code == "experts_on_whole_sequences" for issue in issues) == expected


@pytest.mark.parametrize("field", ["image_size", "image_tokens", "decoder_sequence_length"])
def test_what_a_text_model_cannot_have_is_an_error(check: Any, field: str) -> None:
    assert check("training", **{field: 224})[f"error {field}"].startswith("This does not apply: the model ")


def test_an_evaluation_without_a_loss_has_no_use_for_its_settings(check: Any) -> None:
    assert check("evaluation", loss_implementation="chunked", loss_chunks=4) == {
        "warning loss_implementation": "This changes nothing: no loss is computed.",
        "warning loss_chunks": "This changes nothing: no loss is computed.",
    }
    assert check("evaluation", loss_implementation="chunked", loss_chunks=4, computes_loss=True) == {}


def test_adapters_that_are_not_trained_are_warned_of(check: Any) -> None:
    found = check("fine_tuning", method="full", lora={"rank": 64})
    assert found == {"warning lora.rank": "This changes nothing: the method trains no adapters."}


def test_soap_needs_weights_in_fp32(check: Any) -> None:
    # nikhilvyas/SOAP a1e5535: GG in fp32 does not take up an outer product in bf16
    found = check("training", precision="bf16", optimizer="soap")
    assert found == {"warning optimizer": "SOAP fails on weights of 16 bits; train in fp32 or mixed precision."}
    assert check("training", precision="amp-bf16", optimizer="soap") == {}


def test_prefix_tuning_cannot_be_checkpointed(check: Any) -> None:
    # peft 0.21, peft_model.py: _setup_prompt_encoder raises
    found = check("fine_tuning", method="prefix", activation_checkpointing="full")
    assert list(found) == ["error activation_checkpointing"]
    assert check("fine_tuning", method="prompt", activation_checkpointing="full") == {}


def test_labels_are_smoothed_where_the_loss_can_do_it(check: Any) -> None:
    # Megatron-LM, GPTModel.compute_language_model_loss; torch, distributed/tensor/parallel/loss.py
    assert check("training", label_smoothing=0.1) == {}
    megatron = check("training", label_smoothing=0.1, activation_profile="megatron-core")
    assert list(megatron) == ["error label_smoothing"]
    fused = check("training", label_smoothing=0.1, loss_implementation="fused_cross_entropy")
    assert list(fused) == ["warning label_smoothing"]


def test_rank_stabilized_scaling_belongs_to_adapters(check: Any) -> None:
    assert check("fine_tuning", lora={"rank_stabilized": True}) == {}
    found = check("fine_tuning", method="prompt", lora={"rank_stabilized": True})
    assert list(found) == ["warning lora.rank_stabilized"]


MPNET = {"model_type": "mpnet", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}


@pytest.mark.parametrize("model", [{"preset": "microsoft/resnet-50"}, {"config": MPNET}], ids=["resnet", "mpnet"])
def test_classes_that_transformers_cannot_checkpoint_are_refused(model: dict[str, Any]) -> None:
    # transformers 5.24: their classes do not set `supports_gradient_checkpointing`
    document = {"model": model, "phases": {"training": {"activation_checkpointing": "full", "sequence_length": 64}}}
    scenario = Scenario.of(document)
    issues = validate(scenario, resolve_model(scenario.model), load_hardware())
    assert [(issue.code, issue.severity) for issue in issues] == [("checkpointing_missing", "error")]


def test_parts_are_frozen_where_the_rest_is_trained(check: Any) -> None:
    assert check("fine_tuning", method="full", freezes_embeddings=True) == {}
    assert list(check("fine_tuning", method="lora", freezes_embeddings=True)) == ["warning freezes_embeddings"]
    assert list(check("fine_tuning", method="full", freezes_images=True)) == ["error freezes_images"]


def test_only_training_begins_with_random_weights(check: Any) -> None:
    scratch = {"loading": {"strategy": "from_scratch"}}
    assert "error loading.strategy" not in check("training", **scratch)
    for phase in ("fine_tuning", "evaluation", "serving"):
        assert "only training begins with random weights" in check(phase, **scratch)["error loading.strategy"]
