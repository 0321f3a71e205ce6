"""What makes the figures of a phase less sure than usual: warnings of the plan, and a model known only roughly."""

from planner.engine.plan import PhaseName
from planner.gui.state import State


def cautions(state: State, phase: PhaseName) -> tuple[str, ...]:
    """Sentences, the model's own first; none for a phase that is not planned."""
    plan = state.plan.phases.get(phase) if state.plan else None
    if plan is None:
        return ()
    reason = state.spec.approximate if state.spec and plan.peak.process_bytes else None
    about_model = (f"The model is known approximately: {reason}.",) if reason else ()
    return tuple(dict.fromkeys((*about_model, *plan.warnings)))
