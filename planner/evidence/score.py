"""Estimates against what was measured: case by case, and summed up per figure of the plan."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from planner.catalog import Catalog
from planner.engine.estimate import estimate
from planner.errors import PlannerError
from planner.evidence.corpus import Case, Corpus, Unreadable
from planner.evidence.paths import value_at
from planner.evidence.result import Result, Value
from planner.evidence.summary import PathSummary, summarize
from planner.scenario import Scenario


@dataclass(frozen=True, slots=True)
class CaseScore:
    """One case: its results, or why there are none."""

    id: str
    failure: str | None
    results: tuple[Result, ...]


@dataclass(frozen=True, slots=True)
class Score:
    """How the engine did on one or several corpora."""

    name: str
    cases: tuple[CaseScore, ...]
    summary: tuple[PathSummary, ...]

    @property
    def failed(self) -> bool:
        return any(case.failure is not None for case in self.cases)

    def to_json(self) -> dict[str, Any]:
        """The score in the public format `vram-planner/score`, version 1."""
        return {
            "format": "vram-planner/score",
            "version": 1,
            "name": self.name,
            "cases": [_case_json(case) for case in self.cases],
            "summary": [row.to_json() for row in self.summary],
        }


def score_corpus(corpus: Corpus, catalog: Catalog) -> Score:
    """Estimate every case of a corpus. A case that cannot be planned is a failure; the others count all the same."""
    return _score(corpus.name, (_score_case(case, catalog) for case in corpus.cases))


def join(scores: Iterable[Score]) -> Score:
    """Several corpora as one, for output that holds a single score."""
    parts = tuple(scores)
    return _score(", ".join(part.name for part in parts), (case for part in parts for case in part.cases))


def _score(name: str, cases: Iterable[CaseScore]) -> Score:
    done = tuple(cases)
    return Score(name, done, summarize(result for case in done for result in case.results))


def _score_case(case: Case | Unreadable, catalog: Catalog) -> CaseScore:
    if isinstance(case, Unreadable):
        return CaseScore(case.id, case.failure, ())
    try:
        plan = estimate(Scenario.of(case.scenario), catalog).to_json()
    except PlannerError as error:
        return CaseScore(case.id, error.message, ())
    except Exception as error:  # one case must not hide the others
        return CaseScore(case.id, f"unexpected {type(error).__name__}: {error}", ())
    return CaseScore(
        case.id, None, tuple(_result(item.path, item.value, value_at(plan, item.path)) for item in case.expect)
    )


def _result(path: str, expected: Value, found: Any) -> Result:
    estimated = found if isinstance(found, int | float | str) else None
    return Result(path, expected, estimated, _relative_error(expected, estimated))


def _relative_error(expected: Value, estimated: Value | None) -> float | None:
    """(estimated - expected) ÷ |expected|; where nothing was expected, the estimate itself."""
    if isinstance(expected, str) or isinstance(estimated, str) or estimated is None:
        return None
    return (estimated - expected) / (abs(expected) or 1)


def _case_json(case: CaseScore) -> dict[str, Any]:
    return {
        "id": case.id,
        "failure": case.failure,
        "results": [
            {"path": item.path, "expected": item.expected, "estimated": item.estimated, "error": item.error}
            for item in case.results
        ],
    }
