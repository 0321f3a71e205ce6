"""The recipes of packages, as far as they can be read without building: each against what its own system demands."""

import configparser
import json
import os
import plistlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from PySide6.QtGui import QImageReader

from planner import __version__

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGING = CHECKOUT / "resources/packaging"


@pytest.fixture(autouse=True)
def _recipes_importable(monkeypatch):
    monkeypatch.syspath_prepend(str(PACKAGING))


def test_the_version_comes_from_the_package():
    assert import_module("freeze").version() == __version__


@pytest.mark.parametrize(
    "path",
    [
        "_internal/PySide6/Qt/plugins/platforms/libqxcb.so",
        "_internal/PySide6/Qt/plugins/platforms/libqoffscreen.so",
        "_internal/PySide6/Qt/plugins/imageformats/libqsvg.so",
        "PySide6\\plugins\\platforms\\qwindows.dll",
        "_internal/planner/_resources/fonts/Inter-Regular.ttf",
        "_internal/libQt6Svg.so.6",
        "_internal/numpy.libs/libgfortran-040039e1.so.5.0.0",
    ],
)
def test_what_the_window_needs_stays(path):
    assert import_module("contents").is_kept(path)


@pytest.mark.parametrize(
    "path",
    [
        "PySide6/Qt/plugins/platformthemes/libqgtk3.so",
        "PySide6/Qt/plugins/platforms/libqvnc.so",
        "PySide6/Qt/translations/qtbase_de.qm",
        "libgtk-3.so.0",
        "libpangocairo-1.0.so.0",
        "libQt6Quick.so.6",
        "libstdc++.so.6",
        "planner/_resources/screenshots/dark.png",
    ],
)
def test_what_it_does_not_need_goes(path):
    assert not import_module("contents").is_kept(path)


def test_a_library_of_x11_that_the_building_machine_lacks_stops_the_build():
    freeze = import_module("freeze")
    freeze._check_log("WARNING: Library not found: could not resolve 'libfancy.so.1', dependency of 'other.so'.")
    with pytest.raises(freeze.BuildError, match=r"libxcb-icccm\.so\.4"):
        freeze._check_log("WARNING: Library not found: could not resolve 'libxcb-icccm.so.4', dependency of 'x.so'.")


def test_the_icon_of_windows_has_every_size(tmp_path):
    subprocess.run([sys.executable, PACKAGING / "icons.py", tmp_path], check=True, cwd=CHECKOUT, env=_offscreen())
    reader = QImageReader(str(tmp_path / "vram-planner.ico"))
    sizes = []
    for index in range(reader.imageCount()):
        assert reader.jumpToImage(index)
        sizes.append(reader.read().width())
    assert sizes == [16, 24, 32, 48, 64, 128, 256]
    icns = (tmp_path / "vram-planner.icns").read_bytes()
    assert icns[:4] == b"icns"
    assert int.from_bytes(icns[4:8], "big") == len(icns)


def test_the_menu_entry_opens_plans():
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str
    parser.read(PACKAGING / "linux/vram-planner.desktop", encoding="utf-8")
    entry = parser["Desktop Entry"]
    kinds = ElementTree.parse(PACKAGING / "linux/vram-planner.xml").getroot()
    space = {"m": "http://www.freedesktop.org/standards/shared-mime-info"}
    kind = kinds.find("m:mime-type", space)
    assert entry["MimeType"] == f"{kind.get('type')};"
    assert kind.find("m:glob", space).get("pattern") == "*.vramplan"
    assert entry["Exec"].split() == ["vram-planner", "%f"]
    if shutil.which("desktop-file-validate"):
        subprocess.run(["desktop-file-validate", PACKAGING / "linux/vram-planner.desktop"], check=True)


def test_software_centres_are_told_what_it_is():
    root = ElementTree.parse(PACKAGING / "linux/org.vramplanner.VRAMPlanner.metainfo.xml").getroot()
    assert root.findtext("launchable") == "vram-planner.desktop"
    assert root.findtext("provides/mediatype") == "application/x-vramplan+json"
    assert root.findtext("project_license") == "MIT"


def test_the_entitlements_of_macos_are_a_property_list():
    rights = plistlib.loads((PACKAGING / "macos/entitlements.plist").read_bytes())
    assert all(name.startswith("com.apple.security.cs.") and value is True for name, value in rights.items())


def test_the_installer_of_windows_is_for_one_person_and_names_only_what_is_defined():
    text = (PACKAGING / "windows/vram-planner.iss").read_text(encoding="utf-8")
    assert "PrivilegesRequired=lowest" in text
    given = set(re.findall(r'"(Version|Frozen|Out|Icon)":', (PACKAGING / "windows_packages.py").read_text("utf-8")))
    assert set(re.findall(r"\{#(\w+)\}", text)) <= given | {"SignCommand"}
    sections = re.findall(r"^\[(\w+)\]", text, re.MULTILINE)
    known = ["Setup", "Languages", "Tasks", "Files", "InstallDelete", "Icons", "Registry", "Run", "Code"]
    assert sections == known
    assert text.count("#if") == text.count("#endif")
    assert set(re.findall(r"Tasks: (\w+)", text)) <= set(re.findall(r'^Name: "(\w+)"; Description', text, re.MULTILINE))


def test_the_workflow_builds_targets_that_exist():
    workflow = yaml.safe_load((CHECKOUT / ".github/workflows/packages.yml").read_text(encoding="utf-8"))
    targets = import_module("build").TARGETS
    systems = {"linux": "linux", "windows": "win32", "macos": "darwin"}
    assert set(workflow["jobs"]) == set(systems)
    for job, system in systems.items():
        runs = [step["run"] for step in workflow["jobs"][job]["steps"] if "build.py" in step.get("run", "")]
        (words,) = [run.partition("build.py ")[2].split(" --")[0].split() for run in runs]
        assert words
        assert set(words) <= set(targets[system])


@pytest.mark.skipif(sys.platform == "win32", reason="a script for Linux")
def test_installing_and_uninstalling_leaves_nothing(tmp_path):
    bundle, home = tmp_path / "a bundle", tmp_path / "a home"
    home.mkdir()
    (bundle / "share/applications").mkdir(parents=True)
    (bundle / "share/icons/hicolor/16x16/apps").mkdir(parents=True)
    (bundle / "share/icons/hicolor/16x16/apps/vram-planner.png").write_bytes(b"icon")
    program = bundle / "vram-planner"
    program.write_text("#!/bin/sh\necho started\n")
    program.chmod(0o755)
    for script in ("install.sh", "uninstall.sh"):
        shutil.copy(PACKAGING / "linux" / script, bundle / script)
    shutil.copy(PACKAGING / "linux/vram-planner.desktop", bundle / "share/applications")
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    for _ in range(2):  # the second time over the first
        subprocess.run(["sh", bundle / "install.sh", home / "own"], check=True, env=environment, capture_output=True)
    started = subprocess.run([home / "own/bin/vram-planner"], check=True, capture_output=True, text=True)
    assert started.stdout == "started\n"
    entry = (home / "own/share/applications/vram-planner.desktop").read_text(encoding="utf-8")
    assert f'Exec="{home}/own/lib/vram-planner/vram-planner" %f' in entry
    subprocess.run([home / "own/lib/vram-planner/uninstall.sh"], check=True, env=environment, capture_output=True)
    assert [path for path in home.rglob("*") if path.is_file() or path.is_symlink()] == []


def test_without_a_runtime_the_appimage_stops_with_its_message_after_the_folder(tmp_path):
    packages = import_module("linux_packages")
    frozen = tmp_path / "frozen"
    for name in ("applications/vram-planner.desktop", "icons/hicolor/256x256/apps/vram-planner.png"):
        (frozen / "share" / name).parent.mkdir(parents=True)
        (frozen / "share" / name).write_bytes(b"")
    (frozen / "vram-planner").write_text("#!/bin/sh\n")
    with pytest.raises(packages.BuildError, match="--runtime"):
        packages.appimage(frozen, tmp_path / "work", tmp_path)
    root = tmp_path / "work/VRAM_Planner.AppDir"
    assert (root / "AppRun").resolve() == root / "usr/lib/vram-planner/vram-planner"
    assert (root / "vram-planner.desktop").is_file()


def test_every_licence_is_written_down(tmp_path):
    done = subprocess.run(
        [sys.executable, PACKAGING / "licences.py", tmp_path], check=True, capture_output=True, text=True
    )
    listed = {entry["name"]: entry for entry in json.loads(done.stdout)}
    assert "BSD" in listed["numpy"]["licence"]
    assert "LGPL" in listed["PySide6_Essentials"]["licence"]
    assert "pip" not in listed
    shipped = {"numpy", "PySide6_Essentials", "pydantic", "rich", "typer", "python-pptx", "lxml"}
    import_module("freeze").check_licences([entry for name, entry in listed.items() if name in shipped])
    assert (tmp_path / "numpy").is_dir()


def test_a_licence_that_nobody_has_looked_at_stops_the_build():
    freeze = import_module("freeze")
    with pytest.raises(freeze.BuildError, match="secret-tool"):
        freeze.check_licences([{"name": "secret-tool", "version": "1", "licence": "Proprietary"}])


def _offscreen():
    return {**os.environ, "QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": str(CHECKOUT)}
