"""What rules look at: one phase with its model and GPUs, each known or not."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Any, Protocol

from planner.errors import Issue, Severity
from planner.scenario.declaration import Declared, parts_of
from planner.scenario.hardware import Hardware

if TYPE_CHECKING:
    from planner.hardware import Gpu


class ModelLike(Protocol):
    """What is read of a model's structure (`planner.model.spec.ModelSpec`)."""

    @property
    def task(self) -> str: ...
    @property
    def model_type(self) -> str: ...
    @property
    def stacks(self) -> tuple[Any, ...]: ...
    @property
    def max_positions(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The few properties of a model that layouts and lengths depend on."""

    task: str
    model_type: str
    layers: int
    """Of the main stack."""
    heads: int | None
    """Greatest common divisor of the query heads of all its layers; None without attention."""
    kv_heads: tuple[int, ...]
    feed_forward_sizes: tuple[int, ...]
    experts: int | None
    max_positions: int | None
    learned_positions: bool
    """Positions are a table that ends, so that a longer sequence cannot run at all."""
    sees_images: bool
    has_decoder: bool
    """An encoder and a decoder, whose lengths differ."""
    is_chain: bool
    """Layers of one width follow each other, so that any of them may begin a stage of a pipeline."""


def facts_of(spec: ModelLike) -> ModelFacts:
    """Read off a model's structure what the rules need."""
    stack = spec.stacks[0]
    mixers = [mixer for group in stack.groups for mixer in _mixers(group.mixer)]
    heads = [mixer.heads for mixer in mixers if hasattr(mixer, "head_dim") and hasattr(mixer, "heads")]
    networks = [group.feed_forward for group in stack.groups if group.feed_forward is not None]
    experts = [network.experts for network in networks if hasattr(network, "experts")]
    dense = [network.size for network in networks if not hasattr(network, "experts")]
    return ModelFacts(
        task=spec.task,
        model_type=spec.model_type,
        layers=stack.layers,
        heads=gcd(*heads) if heads else None,
        kv_heads=tuple(sorted({mixer.kv_heads for mixer in mixers if hasattr(mixer, "kv_heads")})),
        feed_forward_sizes=tuple(sorted(set(dense))),
        experts=max(experts) if experts else None,
        max_positions=spec.max_positions,
        learned_positions=any(_is_position_table(part) for part in getattr(stack, "before", ())),
        sees_images=spec.task in IMAGE_TASKS or any(getattr(other, "image", None) for other in spec.stacks),
        has_decoder=spec.task in DECODER_TASKS,
        is_chain=spec.task != "diffusion" and all(getattr(group, "width", None) is None for group in stack.groups),
    )


IMAGE_TASKS = ("image-classification", "image-text-to-text", "diffusion")
DECODER_TASKS = ("seq2seq-lm", "speech-seq2seq")
TEXT_TASKS = (
    *("causal-lm", "masked-lm", "sequence-classification", "seq2seq-lm", "question-answering", "token-classification"),
)


def _mixers(mixer: Any) -> Iterator[Any]:
    """A mixer, or the mixers that run side by side in it."""
    for part in getattr(mixer, "mixers", (mixer,)):
        if part is not None:
            yield part


def _is_position_table(part: Any) -> bool:
    name = getattr(part, "name", "")
    return hasattr(part, "rows") and ("position" in name or "wpe" in name)


@dataclass(frozen=True, slots=True)
class ListedGpu:
    """A GPU of the scenario, with the catalogue's record where there is one, or why there is none."""

    key: str
    name: str
    gpu: "Gpu | None"
    judges: bool
    problem: str = ""


@dataclass(frozen=True, slots=True)
class PhaseFacts:
    """One planned phase, and what it is planned for."""

    name: str
    phase: Any
    model: ModelFacts | None
    gpus: tuple[ListedGpu, ...]
    hardware: Hardware

    @property
    def kind(self) -> type[Declared]:
        """The class of the phase."""
        kind: type[Declared] = type(self.phase)
        return kind

    def issue(self, code: str, field: str, severity: Severity = "error", /, **parameters: Any) -> Issue:
        """An issue at a field of this phase."""
        return Issue(code, f"phases.{self.name}.{field}" if field else f"phases.{self.name}", severity, parameters)

    def differs(self, field: str) -> bool:
        """Whether a field, such as `parallelism.tensor`, is stated and is not its default; never a part as a whole."""
        *above, name = field.split(".")
        part: Declared = self.phase
        for step in above:
            part = getattr(part, step)
        value = getattr(part, name)
        stated = part.states(name) and not isinstance(value, Declared)
        return stated and value != type(part).model_fields[name].get_default()


Rule = Callable[[PhaseFacts], Iterable[Issue]]


def has_field(part: type[Declared], field: str) -> bool:
    """Whether a part has a field such as `parallelism.tensor`."""
    name, _, rest = field.partition(".")
    if not rest:
        return name in part.model_fields
    return name in part.model_fields and any(has_field(inner, rest) for inner in parts_of(part, name))


def nearest_legal(wanted: int, most: int, legal: Callable[[int], bool]) -> tuple[int, ...]:
    """The legal degrees just below and just above a wanted one, up to `most`."""
    below = next((degree for degree in range(min(wanted, most), 0, -1) if legal(degree)), None)
    above = next((degree for degree in range(wanted + 1, most + 1) if legal(degree)), None)
    return tuple(degree for degree in (below, above) if degree is not None)
