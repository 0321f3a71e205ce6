"""The journal of a window: what is edited and not saved yet, so that a crash or a power cut loses less than a second.

Each window writes one file into the user's state folder, beside a lock that tells whether the window still lives. The
file is replaced as a whole, so that it can be read whenever the window dies.
"""

import json
import uuid
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from PySide6.QtCore import QLockFile, QObject, QTimer

from planner.errors import PlannerError
from planner.gui.errors import log
from planner.gui.session import Session
from planner.scenario import Scenario
from planner.scenario.files import parse_json, read_small_file, scenario_from_json, write_atomically

WAIT_MS = 400
"""After an edit: many in a row are written once, and none waits for a second."""
_FORMAT = "vram-planner/journal"
_MOST_BYTES = 24 * 1024 * 1024


def journal_folder() -> Path:
    """Where journals lie, in the user's own state folder."""
    from platformdirs import user_state_path

    return Path(user_state_path("vram-planner", appauthor=False)) / "journal"


@dataclass(frozen=True, slots=True)
class Lost:
    """A plan that a window left behind when it ended without a chance to ask."""

    file: Path
    scenario: Scenario
    path: Path | None
    """The file that it was opened from, or saved to before."""
    edited_at: datetime


class Journal(QObject):
    """Writes down the session's plan while it has unsaved changes; `close` is called when the window may go."""

    def __init__(self, session: Session, folder: Path | None = None) -> None:
        super().__init__(session)
        self._session = session
        self._file = (folder or journal_folder()) / f"{uuid.uuid4().hex}.json"
        self._lock: QLockFile | None = None
        self._timer = QTimer(self, singleShot=True, interval=WAIT_MS)
        self._timer.timeout.connect(self.write)
        session.state_changed.connect(lambda _state, _before: self._on_change())
        session.document_changed.connect(self._on_change)

    def write(self) -> None:
        """Write what is unsaved now, or take the file away where nothing is. Failing is logged, and no more."""
        self._timer.stop()
        if not self._session.dirty:
            self._remove()
            return
        content = {
            "format": _FORMAT,
            "version": 1,
            "edited_at": datetime.now().astimezone().isoformat(),
            "path": str(self._session.path) if self._session.path else None,
            "scenario": self._session.state.scenario.to_document(),
        }
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            if self._lock is None:
                self._lock = QLockFile(str(self._file.with_suffix(".lock")))
                self._lock.setStaleLockTime(0)
                self._lock.tryLock(0)
            write_atomically(self._file, json.dumps(content, ensure_ascii=False).encode())
        except (OSError, PlannerError) as error:
            log.warning("The journal could not be written: %s", error)

    def close(self) -> None:
        """Nothing is to be recovered: the window asked about unsaved changes, or there were none."""
        self._timer.stop()
        self._remove()
        if self._lock is not None:
            self._lock.unlock()
            self._lock = None

    def _remove(self) -> None:
        with suppress(OSError):  # where the folder itself is in the way, there is no journal either
            self._file.unlink()

    def _on_change(self) -> None:
        if not self._timer.isActive():
            self._timer.start()


def lost_plans(folder: Path | None = None) -> list[Lost]:
    """What dead windows left behind, the newest first. Files that cannot be read are taken away."""
    place = folder or journal_folder()
    found = []
    for file in sorted(place.glob("*.json")) if place.is_dir() else ():
        lock = QLockFile(str(file.with_suffix(".lock")))
        lock.setStaleLockTime(0)  # a lock is only as old as the process that holds it
        if not lock.tryLock(0):
            continue
        lock.unlock()
        lost = _read(file)
        if lost is None:
            file.unlink(missing_ok=True)
        else:
            found.append(lost)
    return sorted(found, key=lambda lost: lost.edited_at, reverse=True)


def forget(lost: Lost) -> None:
    """Take a journal away: its plan was recovered, or is not wanted."""
    lost.file.unlink(missing_ok=True)
    lost.file.with_suffix(".lock").unlink(missing_ok=True)


def _read(file: Path) -> Lost | None:
    try:
        content: Any = parse_json(read_small_file(file, _MOST_BYTES))
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            return None
        path = content.get("path")
        edited = datetime.fromisoformat(str(content["edited_at"]))
        return Lost(
            file, scenario_from_json(content["scenario"]), Path(path) if isinstance(path, str) else None, edited
        )
    except (PlannerError, KeyError, ValueError, TypeError) as error:
        log.warning("The journal %s cannot be read: %s", file, error)
        return None
