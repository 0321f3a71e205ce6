"""Outputs of a forward pass that the loops of preference and reinforcement tuning hold on to.

Sources: TRL 1.10 `trainer/dpo_trainer.py: _compute_loss` (`outputs` while the reference runs) and
`experimental/ppo/ppo_trainer.py` (`output`, made with `output_hidden_states=True`, until the update is done).
"""

from planner.engine.activations.lower import PRECISIONS
from planner.engine.activations.tape import BYTES
from planner.engine.phases.role_models import trains_together
from planner.engine.phases.standing import recipe_precision
from planner.engine.pipeline import Stage, layer_count
from planner.engine.term import Factor, Number, Term
from planner.model.spec import ModelSpec
from planner.scenario.phases import FineTuning

DPO = "TRL 1.10, trainer/dpo_trainer.py: outputs live while the reference runs"
PPO = "TRL 1.10, experimental/ppo/ppo_trainer.py: output and its hidden states live until the update is done"


def held_outputs(
    phase: FineTuning, spec: ModelSpec, stage: Stage | None, batch: Number, length: Number
) -> tuple[Term, ...]:
    """Logits and hidden states of `batch` sequences, beyond what the recording of the step keeps of them.

    Logits in fp32 wait for backward by themselves (`log_probabilities_loss`); those in 16 bits do not.
    """
    whole = phase.loss_implementation == "full_logits" and not phase.compile_loss
    if not whole or phase.activation_profile != "hf-transformers" or spec.head is None:
        return ()
    dtype, autocast = PRECISIONS[recipe_precision(phase)]
    in_fp32 = autocast is not None or dtype == "fp32"
    if phase.objective == "dpo" and (stage is None or stage.is_last) and not in_fp32:
        return (_logits(phase, spec, batch, length, dtype, ("end_of_forward",), DPO),)
    if not trains_together(phase):
        return ()
    sizes = (Factor("sequences", batch), Factor("tokens", length), Factor("hidden", spec.stack.hidden_size))
    states = (Factor("layers and the embedding", layer_count(spec) + 1), *sizes, Factor("bytes", BYTES[dtype]))
    alive = ("optimizer_step",) if in_fp32 else ("backward", "optimizer_step")
    return (
        _logits(phase, spec, batch, length, "fp32" if in_fp32 else dtype, alive, PPO),
        Term("activations", "policy: hidden states that the loop holds", states, ("optimizer_step",), PPO),
    )


def _logits(
    phase: FineTuning, spec: ModelSpec, batch: Number, length: Number, dtype: str, alive: tuple[str, ...], source: str
) -> Term:
    assert spec.head is not None
    ranks = phase.parallelism.tensor if phase.parallelism.loss_parallel else 1
    factors = (
        Factor("sequences", batch),
        Factor("tokens", length),
        Factor("vocabulary", -(-spec.head.outputs // ranks)),
        Factor("bytes", BYTES[dtype]),
    )
    return Term("logits", "policy: logits that the loop holds", factors, alive, source)
