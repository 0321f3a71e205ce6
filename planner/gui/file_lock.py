"""One window for each file: who has a plan open is told by a lock in the user's state folder.

The lock does not lie beside the file, which may be in a folder that is read-only or shared; two people who open a file
of a shared folder are not kept apart by it.
"""

from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from PySide6.QtCore import QLockFile, QObject

from planner.gui.journal import journal_folder
from planner.gui.session import Session


class FileLock(QObject):
    """Follows the file of the session: what it opens or saves is locked, what it leaves is free again."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self._path: Path | None = None
        self._lock: QLockFile | None = None
        session.document_changed.connect(self.follow)

    def follow(self) -> None:
        """Lock the file that is open now, and no other."""
        path = self._session.path.resolve() if self._session.path else None
        if path == self._path:
            return
        self.release()
        if path is not None:
            lock = _lock_of(path)
            self._lock = lock if lock.tryLock(0) else None
        self._path = path

    def release(self) -> None:
        if self._lock is not None:
            self._lock.unlock()
        self._path = self._lock = None

    def is_taken(self, path: Path) -> bool:
        """Whether another window has this file open. Where no lock can be made, nobody is in the way."""
        if path.resolve() == self._path:
            return False
        lock = _lock_of(path.resolve())
        if lock.tryLock(0):
            lock.unlock()
            return False
        return lock.error() == QLockFile.LockError.LockFailedError


def _lock_of(path: Path) -> QLockFile:
    folder = journal_folder().parent / "locks"
    with suppress(OSError):  # then the lock cannot be made, which its own error says
        folder.mkdir(parents=True, exist_ok=True)
    lock = QLockFile(str(folder / f"{sha256(str(path).encode()).hexdigest()[:32]}.lock"))
    lock.setStaleLockTime(0)  # a lock is only as old as the process that holds it
    return lock
