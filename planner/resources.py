"""Where `resources/` is: beside the package in a checkout, inside it in a wheel or a frozen program."""

from functools import cache
from pathlib import Path


@cache
def resources_dir() -> Path:
    """The folder that holds catalogue, presets, evidence, fonts and icons.

    Raises `FileNotFoundError` when the installation is incomplete.
    """
    package = Path(__file__).resolve().parent
    for candidate in (package / "_resources", package.parent / "resources"):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"The planner's resources are missing beside {package}. Please install it again.")


def resource(*parts: str) -> Path:
    """The path of one resource, such as `resource("hardware", "gpus.json")`."""
    return resources_dir().joinpath(*parts)
