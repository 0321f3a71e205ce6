"""What people on Linux install: a .deb, an archive that runs where it lies, a self-extracting .run, an AppImage."""

import platform
import shutil
import subprocess
import tarfile
from pathlib import Path

from freeze import HERE, BuildError, version

NAME = "vram-planner"
DEPENDS = "libc6 (>= 2.36), libgl1, libegl1, libxcb1, libstdc++6, xkb-data, fontconfig-config"
"""What the frozen program takes from the system; found by starting it in a bare Debian 12."""
_MAKESELF = ("--nox11", "--nomd5", "--nocrc", "--sha256", "--gzip", "--tar-quietly")
"""With gzip, which every system has; a small one lacks xz."""
_COMMANDS = {"makeself": "makeself", "mksquashfs": "squashfs-tools", "dpkg-deb": "dpkg"}


def deb(frozen: Path, work: Path, out: Path, _runtime: Path | None = None) -> Path:
    """A Debian package; it needs no scripts, as triggers of the system take in menus, icons and file types."""
    root = _fresh(work / "deb")
    _install_tree(frozen, root / "usr")
    documents = root / "usr/share/doc" / NAME
    documents.mkdir(parents=True)
    shutil.copy(HERE / "linux/copyright", documents / "copyright")
    size = sum(path.lstat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink()) // 1024
    control = root / "DEBIAN/control"
    control.parent.mkdir()
    text = (HERE / "linux/control").read_text(encoding="utf-8")
    given = {"VERSION": version(), "SIZE": str(size), "DEPENDS": DEPENDS, "ARCH": _architecture()}
    for name, value in given.items():
        text = text.replace(f"@{name}@", value)
    control.write_text(text, encoding="utf-8")
    made = out / f"{NAME}_{version()}_{_architecture()}.deb"
    _run("dpkg-deb", "--root-owner-group", "-Zxz", "-z6", "--build", root, made)
    return made


def archive(frozen: Path, work: Path, out: Path, _runtime: Path | None = None) -> Path:
    """A folder that runs where it is unpacked; `install.sh` in it adds it to a person's menu."""
    folder = _portable(frozen, work)
    made = out / f"{folder.name}.tar.xz"
    with tarfile.open(made, "w:xz", preset=6) as file:
        file.add(folder, folder.name, filter=_owned_by_root)
    return made


def self_extracting(frozen: Path, work: Path, out: Path, _runtime: Path | None = None) -> Path:
    """A script that unpacks and installs itself, for one person or, as root, for all."""
    folder = _portable(frozen, work)
    made = out / f"{folder.name}.run"
    _run("makeself", *_MAKESELF, folder, made, f"VRAM Planner {version()}", "./install.sh")
    return made


def appimage(frozen: Path, work: Path, out: Path, runtime: Path | None = None) -> Path:
    """An AppImage: the runtime, which has to be supplied, followed by a squashfs image of the AppDir."""
    root = _fresh(work / "VRAM_Planner.AppDir")
    _install_tree(frozen, root / "usr")
    (root / "AppRun").symlink_to(f"usr/bin/{NAME}")
    shutil.copy(root / f"usr/share/applications/{NAME}.desktop", root)
    shutil.copy(root / f"usr/share/icons/hicolor/256x256/apps/{NAME}.png", root)
    (root / ".DirIcon").symlink_to(f"{NAME}.png")
    if runtime is None:
        raise BuildError(
            f"The AppDir is in {root}. Making one file of it needs the static type-2 AppImage runtime: give its path "
            "with --runtime."
        )
    image = work / "image.squashfs"
    image.unlink(missing_ok=True)
    _run("mksquashfs", root, image, "-root-owned", "-noappend", "-comp", "zstd", "-quiet")
    made = out / f"VRAM_Planner-{version()}-{_machine()}.AppImage"
    made.write_bytes(runtime.read_bytes() + image.read_bytes())
    made.chmod(0o755)
    return made


def _install_tree(frozen: Path, prefix: Path) -> None:
    """The frozen folder and its entries in menus, as they lie below `/usr` or `~/.local`."""
    shutil.copytree(frozen, prefix / "lib" / NAME, symlinks=True, ignore=shutil.ignore_patterns("share"))
    shutil.copytree(frozen / "share", prefix / "share", dirs_exist_ok=True)
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / NAME).symlink_to(f"../lib/{NAME}/{NAME}")


def _portable(frozen: Path, work: Path) -> Path:
    folder = _fresh(work / f"{NAME}-{version()}-linux-{_machine()}")
    shutil.copytree(frozen, folder, symlinks=True, dirs_exist_ok=True)
    for script in ("install.sh", "uninstall.sh"):
        shutil.copy(HERE / "linux" / script, folder / script)
        (folder / script).chmod(0o755)
    return folder


def _fresh(folder: Path) -> Path:
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return folder


def _run(command: str, *arguments: object) -> None:
    if shutil.which(command) is None:
        raise BuildError(f"{command} is missing: install the package {_COMMANDS[command]}.")
    done = subprocess.run([command, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{command} failed:\n{done.stdout}{done.stderr}")


def _owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def _machine() -> str:
    return platform.machine()


def _architecture() -> str:
    """Debian's name of this processor."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(_machine(), _machine())
