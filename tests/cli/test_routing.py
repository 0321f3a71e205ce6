import pytest

from planner.cli.main import route


@pytest.mark.parametrize(
    ("arguments", "routed"),
    [
        ([], ["window"]),
        (["plan.vramplan"], ["window", "plan.vramplan"]),
        (["--exit-after-first-paint"], ["window", "--exit-after-first-paint"]),
        (["--exit-after-first-paint", "plan.vramplan"], ["window", "--exit-after-first-paint", "plan.vramplan"]),
        (["estimate", "plan.vramplan"], ["estimate", "plan.vramplan"]),
        (["--version"], ["--version"]),
        (["--help"], ["--help"]),
        (["--self-test"], ["--self-test"]),
    ],
)
def test_without_a_command_the_window_opens(arguments: list[str], routed: list[str]):
    assert route(arguments) == routed
