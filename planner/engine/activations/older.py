"""In what a model's class of transformers 4 differs from that of 5.24, by which it is counted."""

from collections.abc import Mapping

from planner.engine.activations.setting import Setting
from planner.engine.activations.versions import precedes_transformers_5
from planner.model.spec import GatedDeltaNet, Mamba, Mamba2, MixtureOfExperts, ModelSpec

EXPERT_BY_EXPERT = (
    "transformers 4 runs one expert after the other; their activations are counted as those of transformers 5, which "
    "runs them in one product."
)
SCAN_OF_4 = (
    "transformers 4 writes the scan of its Mamba 2 layers without products of matrices, which takes several times the "
    "memory counted here where the mamba_ssm kernels are not installed."
)
LOOP_OF_4 = "The scan of transformers 4 is counted as that of transformers 5."
MASKS_OF_4 = (
    "transformers 4 masks and keeps otherwise in its class of this model, which is counted as that of transformers 5: "
    "its peak can differ by several percent."
)
OTHERWISE = frozenset({"falcon", "stablelm", "gemma3", "gemma3_text", "gpt_neo", "gptj"})
OTHERWISE_IN_EVALUATION = frozenset({"cohere2", "ministral"})
"""Model types whose peaks in a run of the class of 4.57.6 differ by 0.7 to 7 % from those counted."""
DIFFERENCES: Mapping[type, str] = {Mamba2: SCAN_OF_4, Mamba: LOOP_OF_4, GatedDeltaNet: LOOP_OF_4}
"""By the kind of mixer (4.57.6 `models/mamba2/modeling_mamba2.py: Mamba2Mixer.torch_forward` and its relatives)."""


def older_than_told(spec: ModelSpec, setting: Setting) -> tuple[str, ...]:
    """What is told of a newer class than the stated one (4.57.6 `models/mixtral/modeling_mixtral.py`, and others)."""
    if not precedes_transformers_5(setting.version):
        return ()
    groups = [group for stack in spec.stacks for group in stack.groups]
    found = [note for kind, note in DIFFERENCES.items() if any(isinstance(group.mixer, kind) for group in groups)]
    if any(
        isinstance(one, MixtureOfExperts) and not one.visits_all for one in (group.feed_forward for group in groups)
    ):
        found.append(EXPERT_BY_EXPERT)
    if spec.model_type in OTHERWISE or (spec.model_type in OTHERWISE_IN_EVALUATION and not setting.training):
        found.append(MASKS_OF_4)
    return tuple(found)
