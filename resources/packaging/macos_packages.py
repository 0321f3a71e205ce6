"""What people on macOS install: an app in a disk image, signed and notarised where an identity is given.

`VRAM_PLANNER_IDENTITY` names a Developer ID in the keychain; without it the app is signed ad hoc, as Apple's processors
demand. `VRAM_PLANNER_NOTARY` names a profile that `notarytool store-credentials` keeps.
"""

import os
import shutil
import subprocess
from pathlib import Path

from freeze import HERE, BuildError, version

_MACH_O = (b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
"""How 64-bit and universal binaries begin."""


def dmg(frozen: Path, work: Path, out: Path, _runtime: Path | None = None) -> Path:
    """Sign from the inside out, pack, notarise and staple."""
    identity = os.environ.get("VRAM_PLANNER_IDENTITY", "-")
    for binary in sorted(_binaries(frozen), key=lambda path: -len(path.parts)):
        _sign(binary, identity)
    _sign(frozen, identity)
    stage = work / "dmg"
    shutil.rmtree(stage, ignore_errors=True)
    shutil.copytree(frozen, stage / frozen.name, symlinks=True)
    (stage / "Applications").symlink_to("/Applications")
    made = out / f"VRAM-Planner-{version()}-macos-{os.uname().machine}.dmg"
    made.unlink(missing_ok=True)
    _run("hdiutil", "create", "-volname", "VRAM Planner", "-srcfolder", stage, "-format", "UDZO", made)
    if profile := os.environ.get("VRAM_PLANNER_NOTARY"):
        _run("codesign", "--sign", identity, "--timestamp", made)
        _run("xcrun", "notarytool", "submit", made, "--keychain-profile", profile, "--wait")
        _run("xcrun", "stapler", "staple", made)
        _run("spctl", "-a", "-t", "open", "--context", "context:primary-signature", made)
    return made


def _binaries(folder: Path) -> list[Path]:
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) in _MACH_O:
                    found.append(path)
    return found


def _sign(path: Path, identity: str) -> None:
    extra = [] if identity == "-" else ["--timestamp", "--options", "runtime"]
    entitlements = HERE / "macos" / "entitlements.plist"
    _run("codesign", "--force", "--sign", identity, *extra, "--entitlements", entitlements, path)


def _run(*command: object) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
