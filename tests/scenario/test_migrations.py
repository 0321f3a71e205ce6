from typing import Any

import pytest

from planner.scenario import ScenarioError, migrations


def test_the_version_of_today_is_left_alone() -> None:
    document = {"version": 1, "model": {}}
    assert migrations.migrated(document) == document


def test_older_versions_go_through_every_step_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    def renamed(document: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in document.items() if key != "old"} | {"new": document["old"]}

    def doubled(document: dict[str, Any]) -> dict[str, Any]:
        return document | {"new": document["new"] * 2}

    monkeypatch.setattr(migrations, "VERSION", 3)
    monkeypatch.setattr(migrations, "MIGRATIONS", {1: renamed, 2: doubled})
    assert migrations.migrated({"version": 1, "old": 4}) == {"version": 3, "new": 8}


def test_every_version_before_todays_has_its_step() -> None:
    assert sorted(migrations.MIGRATIONS) == list(range(1, migrations.VERSION))


def test_a_newer_version_is_refused_with_what_to_do() -> None:
    with pytest.raises(ScenarioError, match="Install the newest version"):
        migrations.migrated({"version": migrations.VERSION + 1})
