from datetime import UTC, datetime
from pathlib import Path

import pytest

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.engine.plan import Plan
from planner.report.parts import Report, Template
from planner.report.tables import build_report
from planner.scenario import Scenario, load_scenario

PLAN_FILE = Path(__file__).parents[1] / "cli" / "data" / "llama.vramplan"
CREATED = datetime(2026, 12, 1, 9, 30, tzinfo=UTC)
HOSTILE = "=cmd() <script>alert('1')</script> \"quoted\" | שלום 🚀 `x` **b**"
"""A name that formats would take for markup, code or a formula, with letters from right to left and an emoji."""


@pytest.fixture(scope="session", autouse=True)
def _application(qapp: object) -> object:
    """Painting needs an application; pytest-qt's is shared with the tests of the window."""
    return qapp


@pytest.fixture(scope="session")
def created() -> datetime:
    return CREATED


@pytest.fixture(scope="session")
def hostile() -> str:
    return HOSTILE


@pytest.fixture(scope="session")
def scenario() -> Scenario:
    """A six-phase plan of Llama 3.1 8B, judged by an L40S, on a server with known RAM and disks."""
    stated = load_scenario(PLAN_FILE)
    return stated.with_value(("hardware", "host_ram_bytes"), 2 * 1024**4).with_value(("hardware", "nvme_bytes"), 10**13)


@pytest.fixture(scope="session")
def plan(scenario: Scenario) -> Plan:
    return estimate(scenario, load_catalog())


@pytest.fixture(scope="session")
def report(scenario: Scenario, plan: Plan) -> Report:
    return build_report(scenario, plan, load_catalog(), created=CREATED)


@pytest.fixture(scope="session")
def hostile_report(scenario: Scenario) -> Report:
    named = scenario.with_value(("name",), HOSTILE)
    template = Template(company=HOSTILE, author=HOSTILE, reviewer="+1", status="@draft", notes=f"{HOSTILE}\n-2")
    plan = estimate(named, load_catalog())
    return build_report(named, plan, load_catalog(), created=CREATED, template=template, notes=(HOSTILE,))
