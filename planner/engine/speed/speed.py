"""What is roughly known of how fast a phase is: passes at best, the rates that follow, and what they cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.engine.plan import PhaseName
from planner.engine.speed.work import Pass, Resource, Work

HOUR = 3600.0
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Figure:
    """One number that follows from the passes, with the formula behind it."""

    name: str
    value: float
    unit: str
    how: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Speed:
    """A lower bound on time, and with it upper bounds on rates and lower bounds on costs. Nothing here is a promise."""

    phase: PhaseName
    gpu: str
    gpus: int
    what: str
    """What the passes make together, such as `step` or `token of every request`."""
    passes: tuple[Pass, ...]
    figures: tuple[Figure, ...]
    costs: tuple[Figure, ...]
    notes: tuple[str, ...]
    """What is left out, and what would have to be known."""
    first: tuple[Pass, ...] = ()
    """What comes once before, such as the prompt of a request."""
    made: float = 1.0
    """How many tokens, images or sequences come of the passes together."""

    @property
    def seconds(self) -> float:
        """At best: each pass no shorter than its busiest resource needs."""
        return sum(item.seconds for item in self.passes)

    @property
    def in_turn_seconds(self) -> float:
        """At peak rates where nothing overlaps."""
        return sum(item.in_turn_seconds for item in self.passes)

    @property
    def bound(self) -> Resource | None:
        """The resource that most of the time at best goes to."""
        found: dict[Resource, float] = {}
        for item in self.passes:
            if item.bound is not None:
                found[item.bound] = found.get(item.bound, 0.0) + item.seconds
        return max(found, key=found.__getitem__, default=None)

    @property
    def order(self) -> tuple[float, float]:
        """The faster, the smaller: time for each of what is made, at best, then where nothing overlaps."""
        return self.seconds / self.made, self.in_turn_seconds / self.made

    def figure(self, name: str) -> float | None:
        return next((item.value for item in (*self.figures, *self.costs) if item.name == name), None)

    def summary(self) -> Mapping[str, Any]:
        """The figures without what they are made of."""
        told = {"rough": True, "what": self.what, "at_best_seconds": self.seconds, "bound": self.bound}
        figures = {figure.name: figure.value for figure in (*self.figures, *self.costs)}
        return {**told, "in_turn_seconds": self.in_turn_seconds, "made": self.made, "figures": figures}

    def to_json(self) -> Mapping[str, Any]:
        """Members of the public formats; all of it is rough."""
        return {
            "rough": True,
            "what": self.what,
            "at_best_seconds": self.seconds,
            "in_turn_seconds": self.in_turn_seconds,
            "bound": self.bound,
            "gpus": self.gpus,
            "made": self.made,
            "passes": [_pass(item) for item in self.passes],
            "first": [_pass(item) for item in self.first],
            "figures": [_figure(item) for item in self.figures],
            "costs": [_figure(item) for item in self.costs],
            "notes": list(self.notes),
        }


def _pass(item: Pass) -> Mapping[str, Any]:
    return {
        "name": item.name,
        "at_best_seconds": item.seconds,
        "bound": item.bound,
        "busy_seconds": item.busy,
        "works": [_work(work) for work in item.works],
    }


def _work(work: Work) -> Mapping[str, Any]:
    return {
        "resource": work.resource,
        "name": work.name,
        "amount": work.amount,
        "unit": work.unit,
        "factors": {factor.name: float(factor.value) for factor in work.factors},
        "rate": None if work.rate is None else {"name": work.rate.name, "per_second": float(work.rate.value)},
        "seconds": work.seconds,
        "source": work.source,
    }


def _figure(item: Figure) -> Mapping[str, Any]:
    return {"name": item.name, "value": item.value, "unit": item.unit, "how": item.how, "source": item.source}


def unknown_notes(passes: tuple[Pass, ...]) -> tuple[str, ...]:
    """A sentence for each kind of work whose rate the catalogue does not know."""
    found: dict[Resource, list[str]] = {}
    for item in passes:
        for work in item.works:
            if work.rate is None and work.amount and work.name not in found.setdefault(work.resource, []):
                found[work.resource].append(work.name)
    return tuple(f"{MISSING[resource]}: {', '.join(names)} not counted." for resource, names in found.items())


MISSING: Mapping[Resource, str] = {
    "compute": "The peak rate of these products is not known",
    "memory": "The memory bandwidth is not known",
    "interconnect": "The links between the GPUs of a server are not known",
    "network": "The network between servers is not stated",
    "host link": "The link to the server is not known",
}


def shown(value: float) -> str:
    """A number in a formula."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
