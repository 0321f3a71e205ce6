"""Copies the licences of every distribution in this environment, and of Python, into a folder. Run by `freeze.py`.

What is only there to build with (pip, PyInstaller and what it needs) is not shipped: the boot loader of PyInstaller has
an exception to its licence for the programs that it makes.
"""

import importlib.metadata
import json
import shutil
import sys
import sysconfig
from pathlib import Path

from contents import TOOLS

_BEGINNINGS = ("LICENSE", "LICENCE", "COPYING", "NOTICE", "AUTHORS")


def main(folder: Path) -> None:
    """Write a folder for each distribution, and print a list of names, versions and licences as JSON."""
    listed = []
    for found in sorted(importlib.metadata.distributions(), key=lambda each: each.name.lower()):
        if found.name.lower() in TOOLS:
            continue
        metadata = found.metadata
        stated = metadata.get("License", "")
        # Some state the whole text there.
        licence = metadata.get("License-Expression") or (stated if "\n" not in stated else "") or _classified(found)
        listed.append({"name": found.name, "version": found.version, "licence": licence})
        place = folder / found.name
        place.mkdir(parents=True, exist_ok=True)
        for file in found.files or ():
            source = Path(str(found.locate_file(file)))
            if not file.name.upper().startswith(_BEGINNINGS) and "licenses" not in file.parts:
                continue
            if source.is_file() and source.suffix not in (".py", ".pyc"):
                shutil.copy(source, place / source.name)
        about = f"{found.name} {found.version}\n{licence}\n{_pages(found)}"
        (place / "METADATA.txt").write_text(about, encoding="utf-8")
    python = Path(sysconfig.get_path("stdlib")) / "LICENSE.txt"
    if python.is_file():
        (folder / "Python").mkdir(exist_ok=True)
        shutil.copy(python, folder / "Python" / "LICENSE.txt")
    listed.append({"name": "Python", "version": sys.version.split()[0], "licence": "PSF-2.0"})
    (folder / "list.json").write_text(json.dumps(listed, indent=1), encoding="utf-8")
    print(json.dumps(listed))


def _classified(found: importlib.metadata.Distribution) -> str:
    """The licence by its classifier, for distributions that state it nowhere else."""
    names = [text.split(" :: ")[-1] for text in found.metadata.get_all("Classifier", []) if text.startswith("License")]
    return ", ".join(names) or "see its pages"


def _pages(found: importlib.metadata.Distribution) -> str:
    """Where its source is: the offer that the LGPL asks for."""
    pages = [found.metadata.get("Home-page") or "", *found.metadata.get_all("Project-URL", [])]
    return "\n".join(page for page in pages if page) + "\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
