"""What the model card says about a model, in words."""

from planner.gui.state import State
from planner.model import Preset
from planner.model.counts import parameters, prediction_parameters
from planner.model.spec import Attention, LatentAttention, MixtureOfExperts, ModelSpec
from planner.scenario.model_source import ConfigModel, DimensionsModel, PresetModel
from planner.units import SizeUnit, format_count, format_size

SEPARATOR = " · "


def model_title(state: State) -> tuple[str, str]:
    """The preset id (empty if it is none) and the name to show in the picker."""
    model = state.scenario.model
    if isinstance(model, PresetModel):
        return model.preset, model.preset.replace("/", " / ")
    if isinstance(model, DimensionsModel):
        return "", "Own dimensions"
    if isinstance(model, ConfigModel):
        name = state.spec.name if state.spec else "config.json"
        return "", f"{name} (imported)"
    return "", f"{format_count(model.parameters)} parameters, structure unknown"


def facts_line(state: State) -> str:
    """`8.03 B parameters · 32 layers · hidden 4096 · GQA 32/8 · vocab 128 256 · context 8192`."""
    if state.spec is None:
        return state.problem
    facts = [f"{format_count(state.plan.model.parameters)} parameters"] if state.plan else []
    predicted = prediction_parameters(state.spec)
    if predicted:
        facts.append(f"+ {format_count(predicted)} in prediction layers")
    facts += structure(state.spec)
    if state.spec.approximate:
        facts.append("approximate")
    return SEPARATOR.join(facts)


def preset_hint(preset: Preset) -> str:
    """`8.03 B · 131 072 tokens · decoder`: what the list of presets tells about one."""
    count = format_count(preset.parameters)
    if preset.active_parameters != preset.parameters:
        count += f", {format_count(preset.active_parameters)} active"
    context = f"{_grouped(preset.context)} tokens" if preset.context else ""
    return SEPARATOR.join(part for part in (count, context, preset.kind) if part)


def structure(spec: ModelSpec) -> list[str]:
    """Layers, width, heads, vocabulary and context of the main stack."""
    stack = spec.stack
    facts = [f"{spec.layers} layers", f"hidden {_grouped(stack.hidden_size)}"]
    mixers = [group.mixer for group in stack.groups]
    attention = next((mixer for mixer in mixers if isinstance(mixer, Attention)), None)
    if attention is not None:
        facts.append(_heads(attention))
    if any(isinstance(mixer, LatentAttention) for mixer in mixers):
        facts.append("MLA")
    experts = next((g.feed_forward for g in stack.groups if isinstance(g.feed_forward, MixtureOfExperts)), None)
    if experts is not None:
        facts.append(f"{experts.experts} experts")
    if stack.embedding is not None:
        facts.append(f"vocab {_grouped(stack.embedding.vocab)}")
    if spec.max_positions:
        facts.append(f"context {_grouped(spec.max_positions)}")
    return facts


def weights_line(state: State, unit: SizeUnit) -> str:
    """`bf16 · 14.96 GiB`: what the published file holds."""
    if state.spec is None or state.plan is None:
        return "–"
    share = 1 + prediction_parameters(state.spec) / parameters(state.spec)
    return f"{state.spec.dtype}{SEPARATOR}{format_size(round(state.plan.model.weight_bytes * share), unit, digits=2)}"


def _heads(attention: Attention) -> str:
    if attention.kv_heads == attention.heads:
        return f"MHA {attention.heads}"
    return f"{'MQA' if attention.kv_heads == 1 else 'GQA'} {attention.heads}/{attention.kv_heads}"


def _grouped(number: int) -> str:
    """Thousands apart, from 10 000 upwards as is usual in running text."""
    return f"{number:,}".replace(",", "\u202f") if number >= 10_000 else str(number)
