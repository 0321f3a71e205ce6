"""The dimensions of the current model, as the start of the manual form."""

from typing import Any

from planner.gui.state import State
from planner.model.spec import Attention, DenseFeedForward
from planner.scenario.model_source import DimensionsModel

_TYPICAL: dict[str, Any] = {
    "layers": 32,
    "hidden_size": 4096,
    "attention_heads": 32,
    "kv_heads": 8,
    "ffn_hidden_size": 14336,
    "vocab_size": 128256,
    "max_positions": 8192,
}


def dimensions_of(state: State) -> Any:
    """What `model.dimensions` would be for the model of `state`, as far as that form can say it."""
    model = state.scenario.model
    if isinstance(model, DimensionsModel):
        return model.dimensions
    spec = state.spec
    if spec is None or spec.stack.embedding is None:
        return dict(_TYPICAL)
    group = spec.stack.groups[0]
    values = {
        "layers": spec.stack.layers,
        "hidden_size": spec.stack.hidden_size,
        "vocab_size": spec.stack.embedding.vocab,
        "max_positions": spec.max_positions or 8192,
        "tied_embeddings": spec.head is not None and spec.head.tied,
        "attention_heads": 32,
    }
    if isinstance(group.mixer, Attention):
        values |= {
            "attention_heads": group.mixer.heads,
            "kv_heads": group.mixer.kv_heads,
            "head_dim": group.mixer.head_dim,
        }
    if isinstance(group.feed_forward, DenseFeedForward):
        values |= {"ffn_hidden_size": group.feed_forward.size, "gated_mlp": group.feed_forward.gated}
    return values
