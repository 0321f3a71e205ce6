"""Fields that several scenarios do not have alike, in the words of the forms."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from planner.report.assumptions import assumptions
from planner.scenario.scenario import Scenario

ABSENT = "–"
_ID = re.compile(r" \([a-z0-9_.-]+\)$")
"""What a file calls a choice, behind its label."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One field with its value in each scenario."""

    path: str
    where: str
    label: str
    values: tuple[str, ...]


def differences(scenarios: Sequence[Scenario], phase: str) -> tuple[Difference, ...]:
    """The model and the fields of a phase, stated or by default, that are not the same in all of them."""
    listed = [
        {one.path: one for one in assumptions(scenario) if one.path.startswith(("model.", f"phases.{phase}."))}
        for scenario in scenarios
    ]
    found = []
    for path in dict.fromkeys(path for rows in listed for path in rows):
        rows = [each.get(path) for each in listed]
        values = tuple(ABSENT if row is None else f"{_ID.sub('', row.value)} {row.unit}".strip() for row in rows)
        if len(set(values)) > 1:
            known = next(row for row in rows if row is not None)
            found.append(Difference(path, known.where, known.label, values))
    return tuple(found)
