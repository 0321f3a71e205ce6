"""What is remembered between runs: window, theme, unit, recent files and models."""

from pathlib import Path
from typing import cast, get_args

from PySide6.QtCore import QByteArray, QSettings

from planner.gui.theme import THEME_CHOICES, ThemeChoice
from planner.units import SizeUnit

RECENT_FILES = 10
RECENT_MODELS = 5


class Settings:
    """A thin, typed skin over QSettings; anything unreadable counts as not set."""

    def __init__(self, store: QSettings | None = None) -> None:
        self._store = store or QSettings("VRAM Planner", "VRAM Planner")

    @property
    def theme(self) -> ThemeChoice:
        value = str(self._store.value("theme", "system"))
        return value if value in THEME_CHOICES else "system"

    @theme.setter
    def theme(self, choice: ThemeChoice) -> None:
        self._store.setValue("theme", choice)

    @property
    def unit(self) -> SizeUnit:
        value = str(self._store.value("unit", "GiB"))
        return cast(SizeUnit, value) if value in get_args(SizeUnit) else "GiB"

    @unit.setter
    def unit(self, unit: SizeUnit) -> None:
        self._store.setValue("unit", unit)

    @property
    def recent(self) -> tuple[Path, ...]:
        """The files opened or saved last, newest first."""
        return tuple(Path(name) for name in self._names("recent")[:RECENT_FILES])

    def remember_file(self, path: Path) -> None:
        others = [item for item in self.recent if item != path]
        self._store.setValue("recent", [str(item) for item in (path, *others)][:RECENT_FILES])

    def forget_files(self) -> None:
        self._store.remove("recent")

    @property
    def recent_models(self) -> tuple[str, ...]:
        """The ids of the presets picked last, newest first."""
        return self._names("recent_models")[:RECENT_MODELS]

    def remember_model(self, preset: str) -> None:
        others = [item for item in self.recent_models if item != preset]
        self._store.setValue("recent_models", [preset, *others][:RECENT_MODELS])

    def text(self, name: str) -> str:
        """A text that was kept; empty where none was."""
        value = self._store.value(name, "")
        return value if isinstance(value, str) else ""

    def keep_text(self, name: str, text: str) -> None:
        self._store.setValue(name, text)

    def bytes_of(self, name: str) -> QByteArray | None:
        """The saved state of the window or a splitter."""
        value = self._store.value(name)
        return value if isinstance(value, QByteArray) else None

    def keep_bytes(self, name: str, state: QByteArray) -> None:
        self._store.setValue(name, state)

    def _names(self, key: str) -> tuple[str, ...]:
        """A list of texts; a store in a file gives a list of one back as that one."""
        value = self._store.value(key, [])
        names = value if isinstance(value, list) else [value] if isinstance(value, str) and value else []
        return tuple(map(str, names))
