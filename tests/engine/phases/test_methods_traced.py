"""Fine-tuning methods and smoothed losses against steps of the real classes, followed storage by storage.

A Llama of two layers in bf16 with two sequences of 128 tokens: peft 0.21.2 on transformers 5.24 and torch 2.13, with
fake CUDA tensors and `silu_backward` as the one kernel it is. Optimizer states are left out; losses keep a few hundred
bytes of labels that are not recorded.
"""

from typing import Any

import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.engine.plan import PhasePlan
from planner.scenario import Scenario

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 640, "vocab_size": 1000,
    "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": False,
}  # fmt: skip
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]


def tuned(**fields: Any) -> PhasePlan:
    step = {"micro_batch_size": 2, "sequence_length": 128, "optimizer": "sgd", "method": "full"} | fields
    model = {"config": LLAMA, "task": "causal-lm"}
    return estimate(Scenario.of({"model": model, "phases": {"fine_tuning": step}}), load_catalog()).phases[
        "fine_tuning"
    ]


@pytest.mark.parametrize(
    ("fields", "forward", "end_of_forward", "backward", "optimizer_step"),
    [
        ({}, 12422984, 10884920, 12930872, 7562496),
        ({"freezes_embeddings": True}, 12159816, 10621752, 12667704, 7050496),
        ({"freezes_embeddings": True, "activation_checkpointing": "full"}, 7168792, 5630728, 9710880, 7050496),
        ({"method": "lora"}, 15584072, 13914936, 15960888, 4930304),
        ({"method": "lora", "lora": {"dropout": 0.1}}, 16501576, 14832440, 16878392, 4930304),
        ({"method": "lora", "lora": {"rank_stabilized": True}}, 15584072, 13914936, 15960888, 4930304),
        ({"method": "lora", "activation_checkpointing": "full"}, 7611160, 5942024, 10483488, 4930304),
        ({"method": "dora"}, 24647472, 21064504, 23110456, 4967168),
        ({"method": "dora", "lora": {"dropout": 0.1}}, 32793392, 29322040, 31367992, 4967168),
        ({"method": "dora", "lora": {"target_modules": ATTENTION}}, 15164232, 13495096, 15541048, 4254464),
        ({"method": "dora", "precision": "amp-bf16"}, 25506096, 23438648, 25484600, 8746240),
        ({"method": "dora", "activation_checkpointing": "full"}, 9788160, 5960456, 18047776, 4967168),
        ({"method": "lora", "lora": {"adapter_dtype": "bf16"}}, 11905864, 10236728, 12282680, 4356864),
        ({"method": "lora", "precision": "amp-bf16"}, 20473160, 18648376, 20694328, 8709376),
        ({"method": "lora", "precision": "amp-bf16", "lora": {"dropout": 0.1}}, 21390664, 19565880, 21611832, 8709376),
        ({"method": "dora", "lora": {"adapter_dtype": "bf16"}}, 16660296, 14991160, 17037112, 4375296),
        ({"method": "last_layers", "trained_layers": 1}, 9270064, 7600928, 9646880, 5160704),
        (
            {"method": "last_layers", "trained_layers": 1, "activation_checkpointing": "full"},
            *(7037720, 5368584, 8346400, 5160704),
        ),
        (
            {"method": "prompt", "virtual_tokens": 20, "activation_checkpointing": "full"},
            *(7720920, 5767816, 8133448, 3824384),
        ),
        ({"method": "prompt", "virtual_tokens": 20, "precision": "amp-bf16"}, 18948328, 16823192, 19188824, 7603456),
        ({"method": "prefix", "virtual_tokens": 20, "precision": "amp-bf16"}, 18425144, 16018728, 18064680, 7644416),
        ({"method": "prompt", "virtual_tokens": 20}, 11846376, 9741720, 12107352, 3824384),
        ({"method": "prefix", "virtual_tokens": 20}, 11176760, 9204520, 11250472, 3865344),
    ],
)
def test_a_step_equals_that_of_peft_at_every_moment(
    fields: dict[str, Any], forward: int, end_of_forward: int, backward: int, optimizer_step: int
) -> None:
    moments = tuned(**fields).moments
    told = [moments[name].allocated_bytes for name in ("forward", "end_of_forward", "backward", "optimizer_step")]
    assert told == pytest.approx([forward, end_of_forward, backward, optimizer_step], rel=5e-4)


@pytest.mark.parametrize(
    ("fields", "end_of_forward", "backward"),
    [
        # `LabelSmoother` of transformers 5.24 on logits of the model, which is given no labels
        ({}, 10877170, 12401412),
        ({"micro_batch_size": 1}, 7344667, 8106782),
        ({"precision": "amp-bf16"}, 20411314, 22445080),
    ],
)
def test_a_smoothed_loss_equals_that_of_the_trainer(fields: dict[str, Any], end_of_forward: int, backward: int) -> None:
    moments = tuned(label_smoothing=0.1, **fields).moments
    told = [moments[name].allocated_bytes for name in ("end_of_forward", "backward")]
    assert told == pytest.approx([end_of_forward, backward], rel=3e-4)


@pytest.mark.parametrize(
    ("dropout", "forward", "end_of_forward", "backward"),
    [(0.0, 24656688, 21073720, 23119672), (0.1, 32802608, 29331256, 31377208)],
)
def test_dora_takes_the_bias_off_a_layers_output_before_it_scales_it(
    dropout: float, forward: int, end_of_forward: int, backward: int
) -> None:
    step = {"micro_batch_size": 2, "sequence_length": 128, "optimizer": "sgd", "method": "dora"}
    model = {"config": LLAMA | {"attention_bias": True, "mlp_bias": True}, "task": "causal-lm"}
    scenario = Scenario.of({"model": model, "phases": {"fine_tuning": step | {"lora": {"dropout": dropout}}}})
    moments = estimate(scenario, load_catalog()).phases["fine_tuning"].moments
    told = [moments[name].allocated_bytes for name in ("forward", "end_of_forward", "backward")]
    assert told == pytest.approx([forward, end_of_forward, backward], rel=1e-4)


def test_smoothing_in_pytorchs_cross_entropy_raises_no_peak() -> None:
    # torch 2.13, `cross_entropy_loss_label_smoothing`: one more tensor in backward, which soon dies
    plain, smoothed = (
        tuned(activation_profile="torchtune", label_smoothing=share).peak.allocated_bytes for share in (0.0, 0.1)
    )
    assert plain <= smoothed < 1.001 * plain


def test_a_kernel_smooths_labels_in_no_memory_of_its_own() -> None:
    plain, smoothed = (tuned(loss_implementation="fused_linear", label_smoothing=share).peak for share in (0.0, 0.1))
    assert smoothed == plain


def test_rank_stabilized_adapters_say_that_their_scaling_is_a_number() -> None:
    terms = tuned(method="lora", lora={"rank_stabilized": True}).terms
    [factors] = [item.factors for item in terms if item.name == "adapters"]
    assert [factor.how for factor in factors if factor.name == "scaling by rsLoRA"] == [
        "alpha / root of the rank, a number of the layer (arXiv:2312.03732)"
    ]


def test_a_frozen_image_tower_has_neither_gradients_nor_states_and_keeps_nothing() -> None:
    model = {"preset": "llava-hf/llava-1.5-7b-hf"}
    whole, frozen = (
        estimate(
            Scenario.of({"model": model, "phases": {"fine_tuning": {"method": "full", "freezes_images": freezes}}}),
            load_catalog(),
        )
        .phases["fine_tuning"]
        .moments
        for freezes in (False, True)
    )
    # CLIP ViT-L/14 at 336 pixels (303 507 456) and the projector (20 979 712), both published with LLaVA 1.5
    tower = 303_507_456 + 20_979_712
    start, end = (name for name in ("start_of_step", "optimizer_step"))
    assert whole[start].components["optimizer_states"] - frozen[start].components["optimizer_states"] == 4 * tower
    # LLaVA reads the last layer but one: the last and the norm after it have no gradients.
    unread = 12_596_224 + 2_048
    assert whole[end].components["gradients"] - frozen[end].components["gradients"] == 2 * (tower - unread)
    assert frozen["end_of_forward"].components["activations"] < whole["end_of_forward"].components["activations"]


def test_curves_of_apertus_that_only_a_frozen_factor_would_need_are_not_kept_under_adapters() -> None:
    apertus = {
        "model_type": "apertus", "vocab_size": 320, "max_position_embeddings": 128, "num_hidden_layers": 2,
        "hidden_size": 64, "intermediate_size": 192, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    }  # fmt: skip
    step = {"micro_batch_size": 2, "sequence_length": 64, "optimizer": "sgd", "method": "lora"}
    step["lora"] = {"rank": 16, "dropout": 0.1}
    scenario = {"model": {"config": apertus, "task": "causal-lm"}, "phases": {"fine_tuning": step}}
    moments = estimate(Scenario.of(scenario), load_catalog()).phases["fine_tuning"].moments
    traced = {"forward": 2200480, "end_of_forward": 1937296, "backward": 2263952, "optimizer_step": 478032}
    assert {name: moments[name].allocated_bytes for name in traced} == pytest.approx(traced, rel=0.0005)
