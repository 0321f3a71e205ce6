"""Bands from evidence: how far measured peaks lie from their estimates, by class of case, written as data."""

import json
from collections.abc import Iterable, Mapping
from math import ceil, floor
from typing import Any

from planner.engine.band import case_class
from planner.engine.plan import PHASES, PhaseName
from planner.evidence.corpus import Case, Corpus
from planner.evidence.score import CaseScore, Score
from planner.resources import resource
from planner.scenario import Scenario
from planner.scenario.files import write_atomically
from planner.scenario.model_source import SizeModel

FEWEST_CASES = 10
"""A class with fewer measured peaks keeps the band it has."""
LOW_SHARE, HIGH_SHARE = 0.05, 0.95
WIDEST_ON_ONE_GPU = 0.15
"""Further off than this, a case on one GPU is explained in `resources/evidence/README.md`, not covered by the band."""
ONE_GPU = ("training", "training, litgpt", "training, litgpt, quantized base", "inference")
_PEAKS = ("allocated_bytes", "reserved_bytes", "process_bytes")


def write_bands(scored: Iterable[tuple[Corpus, Score]]) -> Mapping[str, int]:
    """Replace the bands of all classes that have enough cases; returns how many cases each of them rests on."""
    names: list[str] = []
    ratios: dict[str, list[float]] = {}
    for corpus, score in scored:
        names.append(corpus.name)
        for case, result in zip(corpus.cases, score.cases, strict=True):
            if isinstance(case, Case):
                for name, ratio in _ratios(case, result):
                    ratios.setdefault(name, []).append(ratio)
    supported = {name: found for name, found in ratios.items() if len(found) >= FEWEST_CASES}
    path = resource("bands", "bands.json")
    content = json.loads(path.read_text(encoding="utf-8"))
    for name, found in supported.items():
        low, high = _reach(found)
        limit = ""
        if name in ONE_GPU:
            low, high = max(low, 1 - WIDEST_ON_ONE_GPU), min(high, 1 + WIDEST_ON_ONE_GPU)
            limit = f", at most {WIDEST_ON_ONE_GPU:.0%} to either side"
        content["classes"][name] = {
            "low": floor(round(min(low, 1.0) * 100, 6)) / 100,
            "high": ceil(round(max(high, 1.0) * 100, 6)) / 100,
            "source": f"{len(found)} measured peaks ÷ their estimates, 5th to 95th percentile, rounded outwards{limit} "
            f"({', '.join(names)})",
        }
    if supported:
        write_atomically(path, _text(content).encode())
    return {name: len(found) for name, found in supported.items()}


def _reach(ratios: Iterable[float]) -> tuple[float, float]:
    """The ratios at the shares, or the next ones outwards: no more cases than these shares lie beyond."""
    ranked = sorted(ratios)
    last = len(ranked) - 1
    return ranked[floor(round(LOW_SHARE * last, 6))], ranked[ceil(round(HIGH_SHARE * last, 6))]


def _text(content: Mapping[str, Any]) -> str:
    """The file with one class to a line."""

    def told(value: object) -> str:
        return json.dumps(value, ensure_ascii=False)

    classes = ",\n".join(f"    {told(name)}: {told(band)}" for name, band in content["classes"].items())
    heads = "".join(f"  {told(key)}: {told(value)},\n" for key, value in content.items() if key != "classes")
    return f'{{\n{heads}  "classes": {{\n{classes}\n  }}\n}}\n'


def _ratios(case: Case, score: CaseScore) -> Iterable[tuple[str, float]]:
    """For each peak that the case measured: its class, and measured ÷ estimated."""
    for result in score.results:
        peak = next((name for name in PHASES if result.path in {f"phases.{name}.peak.{size}" for size in _PEAKS}), None)
        if peak is not None and isinstance(result.estimated, int | float) and result.estimated > 0:
            assert isinstance(result.expected, int | float)
            yield class_of(Scenario.of(case.scenario), peak), result.expected / result.estimated


def class_of(scenario: Scenario, name: PhaseName) -> str:
    """The class of case, as the engine sees it, of one phase of a scenario."""
    phase = getattr(scenario.phases, name)
    return case_class(
        name,
        ranks=phase.parallelism.ranks,
        profile=getattr(phase, "activation_profile", "hf-transformers"),
        approximate=isinstance(scenario.model, SizeModel),
        quantized=getattr(phase, "frozen_format", None) is not None,
        engine=getattr(phase, "engine", None),
        engine_version=getattr(phase, "engine_version", None),
    )
