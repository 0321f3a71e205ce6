"""Every test runs without a screen and without touching the settings of the person who runs it."""

import os
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import settings

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

settings.register_profile("planner", deadline=None, print_blob=True)
settings.load_profile("planner")

_HOME_VARIABLES = (
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
    "XDG_STATE_HOME",
    "APPDATA",
    "LOCALAPPDATA",
)


@pytest.fixture(scope="session", autouse=True)
def _own_settings_folder() -> Iterator[None]:
    """Point the folders of settings, logs and caches into a temporary one, before Qt or platformdirs looks."""
    before = {name: os.environ.get(name) for name in _HOME_VARIABLES}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for name in _HOME_VARIABLES:
            os.environ[name] = os.path.join(folder, name.lower())
        yield
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
