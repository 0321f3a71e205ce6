"""Models that are typed in: numbers that do not fit each other."""

from collections.abc import Iterator

from planner.errors import Issue
from planner.scenario.model_source import Dimensions, DimensionsModel, SizeModel
from planner.scenario.rules.facts import nearest_legal


def model_issues(model: object) -> Iterator[Issue]:
    """What is wrong with the description of the model itself."""
    if isinstance(model, DimensionsModel):
        yield from _dimension_issues(model.dimensions)
    if isinstance(model, SizeModel) and (model.active_parameters or 0) > model.parameters:
        yield Issue("active_above_total", "model.active_parameters", "error", {"parameters": model.parameters})


def _dimension_issues(form: Dimensions) -> Iterator[Issue]:
    heads, width = form.attention_heads, form.hidden_size
    if form.head_dim is None and width % heads:
        legal = nearest_legal(heads, width, lambda wanted: width % wanted == 0)
        parameters = {"heads": heads, "width": width, "legal": legal}
        yield Issue("heads_divide_width", "model.dimensions.attention_heads", "error", parameters)
    if form.kv_heads is not None and heads % form.kv_heads:
        legal = nearest_legal(form.kv_heads, heads, lambda wanted: heads % wanted == 0)
        parameters = {"kv_heads": form.kv_heads, "heads": heads, "legal": legal}
        yield Issue("kv_heads_divide", "model.dimensions.kv_heads", "error", parameters)
    if form.position_embedding == "learned" and form.max_positions is None:
        yield Issue("missing", "model.dimensions.max_positions", "error", {"label": "The length of a learned table"})
    yield from _expert_issues(form)


def _expert_issues(form: Dimensions) -> Iterator[Issue]:
    if form.experts is None:
        for name in ("experts_per_token", "expert_ffn_hidden_size"):
            if getattr(form, name) is not None:
                yield Issue("changes_nothing", f"model.dimensions.{name}", "warning", {"why": "there are no experts"})
    elif (form.experts_per_token or 0) > form.experts:
        parameters = {"chosen": form.experts_per_token, "experts": form.experts}
        yield Issue("experts_per_token", "model.dimensions.experts_per_token", "error", parameters)
