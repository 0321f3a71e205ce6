"""Builds what people on Linux install and tries it in a bare Debian 12, as a person would: run as root, by hand.

    python tests/packaging/bare_root.py [--work DIR]

The .deb, the archive and the .run are built, installed, started on a virtual screen, driven through one plan by keys,
photographed and taken away again; anything left over, too large or too slow ends it with a message. Needs debootstrap,
binutils, makeself, xvfb, xdotool, openbox and imagemagick. Pictures and packages stay in DIR (`packages` by default).
"""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from person import plan_something
from root import Root, bare_root
from speed import slower_than_source

CHECKOUT = Path(__file__).resolve().parents[2]
BUILD = CHECKOUT / "resources/packaging/build.py"
LARGEST_FOLDER, LARGEST_DEB = 240e6, 70e6
REPORTS = ("html", "pdf", "xlsx", "pptx", "md", "csv")
SLOWEST = 1.2
"""Time to the first window, against that from source."""
NEEDED = ("debootstrap", "makeself", "Xvfb", "xdotool", "openbox", "import")


def main() -> None:
    """Everything, in order; an `AssertionError` says what failed."""
    parser = argparse.ArgumentParser(description="Build the packages and try them in a bare Debian 12.")
    parser.add_argument("--work", type=Path, default=Path("packages"))
    work = parser.parse_args().work.resolve()
    missing = [command for command in NEEDED if shutil.which(command) is None]
    if missing:
        sys.exit(f"bare_root.py: install {', '.join(missing)} first.")
    out = work / "out"
    shutil.rmtree(out, ignore_errors=True)
    subprocess.run([sys.executable, BUILD, "--work", work / "build", "--out", out], check=True)
    frozen = work / "build/dist/vram-planner"
    check_sizes(frozen, out)
    with bare_root(work / "root") as root:
        try_deb(root, one(out, "*.deb"), work)
        try_archive(root, one(out, "*.tar.xz"))
        try_self_extracting(root, one(out, "*.run"), work)
    try_appdir(work)
    ratio = slower_than_source(frozen / "vram-planner", work / "build/environment/bin/python")
    print(f"time to the first window: {ratio:.2f} of that from source")
    assert ratio <= SLOWEST, f"the frozen program starts {ratio:.2f} times slower than the source"
    print("all packages work")


def check_sizes(frozen: Path, out: Path) -> None:
    """The limits of what people download and install."""
    installed = sum(path.lstat().st_size for path in frozen.rglob("*"))
    deb = one(out, "*.deb").stat().st_size
    print(f"installed: {installed / 1e6:.0f} MB; .deb: {deb / 1e6:.1f} MB")
    assert installed <= LARGEST_FOLDER, f"{installed / 1e6:.0f} MB are installed"
    assert deb <= LARGEST_DEB, f"the .deb has {deb / 1e6:.0f} MB"


def try_deb(root: Root, package: Path, work: Path) -> None:
    """Installed by apt with nothing but what it names, used, and purged."""
    root.copy(package, "tmp")
    root.run("apt-get", "install", "-y", "--no-install-recommends", *depends(package))
    with nothing_left(root):
        root.run("apt-get", "install", "-y", "--no-install-recommends", f"/tmp/{package.name}")
        for file in ("share/applications/vram-planner.desktop", "share/mime/packages/vram-planner.xml"):
            assert root.has(f"usr/{file}"), f"{file} is not installed"
        root.run("vram-planner", "--self-test")
        root.copy(CHECKOUT / "tests/cli/data/llama.vramplan", "tmp")
        assert "Training" in root.run("vram-planner", "estimate", "/tmp/llama.vramplan")
        for ending in REPORTS:
            root.run("vram-planner", "report", "/tmp/llama.vramplan", f"/tmp/report.{ending}")
        plan_something(root, "/usr/bin/vram-planner", work / "deb.png")
        root.run("apt-get", "purge", "-y", "vram-planner")
    print(".deb: installed, used, purged")


def try_archive(root: Root, archive: Path) -> None:
    """Runs where it is unpacked, from a folder with blanks in its name."""
    root.copy(archive, "tmp")
    root.run("apt-get", "install", "-y", "--no-install-recommends", "xz-utils")
    root.run("mkdir", "/tmp/a folder")
    root.run("tar", "-xf", f"/tmp/{archive.name}", "-C", "/tmp/a folder", "--strip-components=1")
    root.run("/tmp/a folder/vram-planner", "--self-test")
    root.run("rm", "-rf", "/tmp/a folder")
    print("archive: unpacked and used")


def try_self_extracting(root: Root, file: Path, work: Path) -> None:
    """Installs into a place of one's own, is used, and takes itself away."""
    root.copy(file, "tmp")
    with nothing_left(root):
        root.run("sh", f"/tmp/{file.name}", "--quiet", "--", "/opt/own place")
        root.run("/opt/own place/bin/vram-planner", "--self-test")
        plan_something(root, "/opt/own place/bin/vram-planner", work / "run.png")
        root.run("/opt/own place/lib/vram-planner/uninstall.sh")
        root.run("find", "/opt", "-depth", "-type", "d", "-empty", "-not", "-path", "/opt", "-delete")
    print(".run: installed, used, uninstalled")


def try_appdir(work: Path) -> None:
    """The AppImage's folder works; the image itself needs a runtime that is not shipped here."""
    folder = work / "build"
    told = subprocess.run(
        [sys.executable, BUILD, "appimage", "--work", folder, "--out", work / "out", "--frozen"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 1, told.stdout + told.stderr
    assert "--runtime" in told.stderr, told.stderr
    subprocess.run([folder / "VRAM_Planner.AppDir/AppRun", "--self-test"], check=True, stdout=subprocess.DEVNULL)
    print("AppDir: used; the image needs a runtime")


@contextmanager
def nothing_left(root: Root) -> Iterator[None]:
    """What happens inside must leave no file or folder behind."""
    before = root.files()
    yield
    left = sorted(root.files() - before)
    assert not left, f"left behind: {', '.join(left[:20])}"


def depends(package: Path) -> list[str]:
    """The names of the packages that a .deb depends on."""
    told = subprocess.run(["dpkg-deb", "-f", package, "Depends"], capture_output=True, text=True, check=True)
    return [part.split()[0] for part in told.stdout.split(",")]


def one(folder: Path, pattern: str) -> Path:
    """The only file of this kind."""
    (found,) = folder.glob(pattern)
    return found


if __name__ == "__main__":
    main()
