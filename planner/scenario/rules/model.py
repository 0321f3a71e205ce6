"""Models that are typed in: numbers that do not fit each other."""

from collections.abc import Iterator

from planner.errors import Issue
from planner.scenario.choices import FAMILIES
from planner.scenario.families import CUSTOM, families, has_dimension
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
    yield from _family_issues(form)
    wide = families()[form.family].head_width if form.family != CUSTOM else 1
    if form.head_dim is None and wide and wide * width % heads:
        legal = nearest_legal(heads, width, lambda wanted: width % wanted == 0)
        parameters = {"heads": heads, "width": width, "legal": legal}
        yield Issue("heads_divide_width", "model.dimensions.attention_heads", "error", parameters)
    if form.kv_heads is not None and heads % form.kv_heads and has_dimension(form.family, "kv_heads"):
        legal = nearest_legal(form.kv_heads, heads, lambda wanted: heads % wanted == 0)
        parameters = {"kv_heads": form.kv_heads, "heads": heads, "legal": legal}
        yield Issue("kv_heads_divide", "model.dimensions.kv_heads", "error", parameters)
    learned = form.position_embedding == "learned" and form.family == CUSTOM
    if learned and form.max_positions is None:
        yield Issue("missing", "model.dimensions.max_positions", "error", {"label": "The length of a learned table"})
    yield from _expert_issues(form)


def _family_issues(form: Dimensions) -> Iterator[Issue]:
    """What a family needs and is not given, and what is given though it has no such dimension."""
    for name, label in (("vocab_size", "Vocabulary"), ("experts", "Experts")):
        needed = has_dimension(form.family, name) and (name != "experts" or form.family != CUSTOM)
        if needed and getattr(form, name) is None:
            yield Issue("missing", f"model.dimensions.{name}", "error", {"label": label})
    for item in Dimensions.declarations():
        if not has_dimension(form.family, item.name) and getattr(form, item.name) != item.default:
            why = f"the family {FAMILIES[form.family]} has no such dimension"
            if item.name not in ("attention_heads", "hidden_size", "layers"):
                yield Issue("changes_nothing", f"model.dimensions.{item.name}", "warning", {"why": why})


def _expert_issues(form: Dimensions) -> Iterator[Issue]:
    if not has_dimension(form.family, "experts"):
        return
    if form.experts is None:
        for name in ("experts_per_token", "expert_ffn_hidden_size"):
            if getattr(form, name) is not None:
                yield Issue("changes_nothing", f"model.dimensions.{name}", "warning", {"why": "there are no experts"})
    elif (form.experts_per_token or 0) > form.experts:
        parameters = {"chosen": form.experts_per_token, "experts": form.experts}
        yield Issue("experts_per_token", "model.dimensions.experts_per_token", "error", parameters)
