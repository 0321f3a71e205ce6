"""The freezing step: the wheel in a clean environment, one folder by PyInstaller, guards against known traps."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import venv
from datetime import date
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent
PYINSTALLER = "pyinstaller>=6.16,<7"
XCB_LIBRARIES = ("xcb-cursor", "xcb-icccm", "xcb-image", "xcb-keysyms", "xcb-randr", "xcb-render-util", "xcb-xkb")
"""What PyInstaller only bundles where the building machine has it; without them the program dies on X11."""
KNOWN_LICENCES = re.compile(r"MIT|BSD|Apache|PSF|Python Software|LGPL|MPL|ISC|Zlib")


class BuildError(Exception):
    """The build cannot go on; the text says why, and what to do."""


def freeze(work: Path) -> Path:
    """Build the folder `work/dist/vram-planner` (on macOS the app) and return it. Takes a few minutes."""
    work.mkdir(parents=True, exist_ok=True)
    python = _environment(work)
    _write_icons(python, work)
    build = work / "build"
    log = work / "pyinstaller.log"
    command = [python, "-m", "PyInstaller", "--noconfirm", "--distpath", work / "dist", "--workpath", build]
    with log.open("wb") as told:
        done = subprocess.run([*command, HERE / "vram-planner.spec"], cwd=work, stdout=told, stderr=told, check=False)
    text = log.read_text(errors="replace")
    if done.returncode:
        raise BuildError(f"PyInstaller failed:\n{text[-3000:]}")
    _check_log(text)
    folder = frozen_folder(work)
    inside = folder / ("Contents/Resources" if sys.platform == "darwin" else "")
    _write_licences(python, inside / "licences")
    if sys.platform.startswith("linux"):
        _write_share(work / "icons", folder / "share")
        _strip_python(folder)
    _check_folder(folder)
    return folder


def frozen_folder(work: Path) -> Path:
    """Where `freeze` puts its result."""
    return work / "dist" / ("VRAM Planner.app" if sys.platform == "darwin" else "vram-planner")


def version() -> str:
    """The version of the checkout, from its one place."""
    text = (CHECKOUT / "planner" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"', text, re.MULTILINE)
    if found is None:
        raise BuildError("planner/__init__.py names no __version__.")
    return found[1]


def _environment(work: Path) -> Path:
    """A new environment with the planner's wheel and PyInstaller, and nothing of the system's; returns its Python.

    A PySide6 of the system could win over the one that was installed.
    """
    folder = work / "environment"
    venv.EnvBuilder(clear=True, with_pip=True, system_site_packages=False).create(folder)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*install, PYINSTALLER, f"{CHECKOUT}"], check=True, cwd=work)
    return python


def _write_icons(python: Path, work: Path) -> None:
    """The icon in the sizes and formats that the system wants, drawn from the SVG by Qt."""
    folder = work / "icons"
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    subprocess.run([python, HERE / "icons.py", folder], check=True, env=environment)
    (work / "build").mkdir(exist_ok=True)
    for name in ("vram-planner.ico", "vram-planner.icns"):
        place = work / "build" / "vram-planner" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / name, place)
    if os.name == "nt":
        text = (HERE / "windows" / "version.txt").read_text(encoding="utf-8")
        numbers = ", ".join([*re.findall(r"\d+", version()), "0", "0", "0"][:4])
        filled = text.replace("@NUMBERS@", numbers).replace("@VERSION@", version())
        (work / "build" / "vram-planner" / "version.txt").write_text(filled, encoding="utf-8")


def _write_share(icons: Path, share: Path) -> None:
    """What menus and file managers of Linux read, as it lies below `/usr/share`."""
    for icon in icons.glob("vram-planner-*.png"):
        side = icon.stem.rsplit("-", 1)[1]
        _copy(icon, share / f"icons/hicolor/{side}x{side}/apps/vram-planner.png")
    _copy(CHECKOUT / "resources/icons/app.svg", share / "icons/hicolor/scalable/apps/vram-planner.svg")
    _copy(HERE / "linux/vram-planner.desktop", share / "applications/vram-planner.desktop")
    _copy(HERE / "linux/vram-planner.xml", share / "mime/packages/vram-planner.xml")
    metainfo = share / "metainfo/org.vramplanner.VRAMPlanner.metainfo.xml"
    _copy(HERE / "linux" / metainfo.name, metainfo)
    text = metainfo.read_text(encoding="utf-8")
    day = date.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))).isoformat()
    metainfo.write_text(text.replace("@VERSION@", version()).replace("@DATE@", day), encoding="utf-8")


def _strip_python(folder: Path) -> None:
    """Take debugging symbols out of Python's own libraries, where they are most of them; numpy's would break."""
    for library in (*folder.rglob("libpython3*.so*"), *folder.rglob("lib-dynload/*.so")):
        subprocess.run(["strip", "--strip-unneeded", library], check=True)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


def _check_log(text: str) -> None:
    """Fail on libraries that the building machine lacks: PyInstaller only warns, and the program would die."""
    missing = sorted(set(re.findall(r"Library not found: could not resolve '([^']+)'", text)))
    needed = [name for name in missing if any(part in name for part in XCB_LIBRARIES)]
    if needed:
        raise BuildError(f"Install the packages with {', '.join(needed)} first (README, Set up): X11 needs them.")


def _check_folder(folder: Path) -> None:
    """Guards for what went wrong with frozen programs before."""
    names = {path.name for path in folder.rglob("*")}
    if "_resources" not in names:
        raise BuildError("The resources are missing from the frozen folder.")
    if "Inter-Regular.ttf" not in names:
        raise BuildError("The typeface is missing: on a machine without fonts every label would be an empty box.")
    if sys.platform.startswith("linux"):
        absent = [part for part in XCB_LIBRARIES if not any(name.startswith(f"lib{part}.so") for name in names)]
        if absent:
            raise BuildError(f"The frozen folder lacks {', '.join(absent)}: it would not start on X11.")
        if any(name.startswith("libgtk-3") for name in names):
            raise BuildError("The gtk platform theme got in; it brings 20 MB of libraries.")


def _write_licences(python: Path, folder: Path) -> None:
    """The licences of everything that is bundled, one folder for each, and a list for the About window."""
    told = subprocess.run([python, HERE / "licences.py", folder], check=True, capture_output=True, text=True)
    check_licences(json.loads(told.stdout))


def check_licences(listed: list[dict[str, str]]) -> None:
    """Fail on a licence that nobody has looked at: what is shipped is permissive, or Qt under the LGPL."""
    if not listed:
        raise BuildError("No licence was found for what is bundled.")
    unknown = [entry for entry in listed if not KNOWN_LICENCES.search(entry["licence"])]
    if unknown:
        names = ", ".join(f"{entry['name']} ({entry['licence'] or 'none stated'})" for entry in unknown)
        raise BuildError(f"Look at the licence of {names} before it is shipped.")


if __name__ == "__main__":
    sys.exit("Run build.py; this module is a part of it.")
