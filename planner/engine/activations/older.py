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
    return tuple(found)
