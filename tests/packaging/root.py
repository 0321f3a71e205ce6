"""A bare Debian 12 in a folder, made by debootstrap, in which commands run by chroot."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NOT_COUNTED = ("tmp", "proc", "dev", "sys", "root", "var/cache", "var/lib/apt", "var/lib/dpkg", "var/log", "run")
_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
}


class Root:
    """The folder, with what is done in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *command: str, **environment: str) -> str:
        """Run a command to its end and return what it told; raises `AssertionError` when it fails."""
        done = subprocess.run(
            self.command(*command), env={**_ENVIRONMENT, **environment}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout

    def start(self, *command: str, **environment: str) -> "subprocess.Popen[str]":
        """Start a command and let it run."""
        return subprocess.Popen(self.command(*command), env={**_ENVIRONMENT, **environment}, text=True)

    def command(self, *command: str) -> list[str]:
        return ["chroot", str(self.folder), *command]

    def copy(self, file: Path, folder: str) -> None:
        """Copy a file of this machine into it."""
        shutil.copy(file, self.folder / folder)

    def has(self, path: str) -> bool:
        return (self.folder / path).exists()

    def files(self) -> set[str]:
        """Every path in it, but for those where the system itself keeps changing."""
        prune = [part for place in _NOT_COUNTED for part in ("-o", "-path", f"./{place}")][1:]
        command = ["find", ".", "(", *prune, ")", "-prune", "-o", "-print"]
        return set(subprocess.check_output(command, cwd=self.folder, text=True).splitlines())


@contextmanager
def bare_root(folder: Path) -> Iterator[Root]:
    """Make it anew, and delete it in the end."""
    shutil.rmtree(folder, ignore_errors=True)
    # The machine's own mirror, whichever that is.
    indexes = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    mirror = subprocess.check_output(indexes, text=True).split()[0]
    command = ["debootstrap", "--variant=minbase", "bookworm", str(folder), mirror]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-2000:]
    for file in (Path("/etc/apt/apt.conf.d"), Path("/etc/resolv.conf")):
        _copy_settings(file, folder)
    root = Root(folder)
    try:
        root.run("apt-get", "update")
        yield root
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy_settings(source: Path, folder: Path) -> None:
    """What this machine needs to reach its mirror, a proxy for instance."""
    files = sorted(source.iterdir()) if source.is_dir() else [source]
    for file in files:
        if file.is_file():
            shutil.copy(file, folder / str(file).lstrip("/"))
