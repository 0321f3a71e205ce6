from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from planner.cli.run import run

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str


@pytest.fixture
def plan_file() -> Path:
    """A six-phase plan of Llama 3.1 8B, judged by an L40S."""
    return DATA / "llama.vramplan"


@pytest.fixture
def config_file() -> Path:
    """The published config.json of Llama 3.1 8B."""
    return DATA / "config.json"


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run one command line in this process, without a window."""

    def no_window(file: Path | None, exit_after_first_paint: bool) -> int:
        raise AssertionError(f"the window was opened: {file}, {exit_after_first_paint}")

    def call(*arguments: object) -> Outcome:
        status = run([str(argument) for argument in arguments], no_window)
        captured = capsys.readouterr()
        return Outcome(status, captured.out, captured.err)

    return call
