"""What people on Windows install: an installer for one person by Inno Setup, and a folder to run where it lies."""

import os
import shutil
import subprocess
from pathlib import Path

from freeze import HERE, BuildError, version


def installer(frozen: Path, work: Path, out: Path, _runtime: Path | None = None) -> Path:
    """An installer; signed where `VRAM_PLANNER_SIGN` holds a signing command with `$f` for the file."""
    compiler = shutil.which("iscc") or _in_program_files()
    if compiler is None:
        raise BuildError("ISCC.exe is missing: install Inno Setup 6.")
    given = {"Version": version(), "Frozen": frozen, "Out": out, "Icon": work / "icons" / "vram-planner.ico"}
    command = [compiler, *(f"/D{name}={value}" for name, value in given.items())]
    if sign := os.environ.get("VRAM_PLANNER_SIGN"):
        command += [f"/Sgiven={sign}", "/DSignCommand=$f"]
    command.append(str(HERE / "windows" / "vram-planner.iss"))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"Inno Setup failed:\n{done.stdout}{done.stderr}")
    return out / f"vram-planner-{version()}-windows-x64.exe"


def portable(frozen: Path, work: Path, out: Path, _runtime: Path | None = None) -> Path:
    """A zip of the folder."""
    name = f"vram-planner-{version()}-windows-x64"
    folder = work / "portable" / name
    shutil.copytree(frozen, folder, dirs_exist_ok=True)
    return Path(shutil.make_archive(str(out / name), "zip", folder.parent, name))


def _in_program_files() -> str | None:
    for place in (os.environ.get("PROGRAMFILES(X86)"), os.environ.get("PROGRAMFILES")):
        compiler = Path(place or "") / "Inno Setup 6" / "ISCC.exe"
        if place and compiler.is_file():
            return str(compiler)
    return None
