"""Builds what people install: `python resources/packaging/build.py [TARGET…]`, with the system's own Python.

Targets on Linux: deb, archive, run, appimage; on Windows: installer, portable; on macOS: dmg. The freezing step is done
once for all of them.
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import linux_packages
import macos_packages
import windows_packages
from freeze import BuildError, freeze, frozen_folder

TARGETS = {
    "linux": {
        "deb": linux_packages.deb,
        "archive": linux_packages.archive,
        "run": linux_packages.self_extracting,
        "appimage": linux_packages.appimage,
    },
    "win32": {"installer": windows_packages.installer, "portable": windows_packages.portable},
    "darwin": {"dmg": macos_packages.dmg},
}


def main() -> int:
    """Build the targets that were named, or all of this system; returns the exit status."""
    targets = TARGETS[sys.platform]
    parser = argparse.ArgumentParser(description="Build installers of VRAM Planner for this system.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"{', '.join(targets)}; all without one")
    parser.add_argument("--work", type=Path, help="where to build; a temporary folder otherwise")
    parser.add_argument("--frozen", action="store_true", help="take what was frozen in the folder of --work before")
    parser.add_argument("--out", type=Path, default=Path("dist"), help="where the results go (dist)")
    parser.add_argument("--runtime", type=Path, help="the AppImage type-2 runtime to put before the image")
    asked = parser.parse_args()
    unknown = [target for target in asked.targets if target not in targets]
    if unknown:
        parser.error(f"there is no target {', '.join(unknown)} on this system; there are {', '.join(targets)}")
    # An AppImage needs a part that is not ours to ship; it is only left out where nobody asked for it.
    wanted = asked.targets or [name for name in targets if name != "appimage" or asked.runtime]
    asked.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        work = (asked.work or Path(folder)).resolve()
        try:
            frozen = frozen_folder(work) if asked.frozen else freeze(work)
            for target in wanted:
                made = targets[target](frozen, work, asked.out.resolve(), asked.runtime)
                print(f"{made} ({made.stat().st_size / 1e6:.1f} MB)")
        except BuildError as error:
            print(f"build.py: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
