"""Do the tests notice mistakes? `python tests/mutation/run.py [--mutants 300] [--seed 1]`, in a clean checkout.

A sample of single changes is made to `planner/engine`, one at a time, in a copy of the checkout; the tests of the
changed module run first, then all of the engine and the evidence. A change that no test notices is printed, for a
person to look at.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from changes import changed, places_of

CHECKOUT = Path(__file__).resolve().parents[2]
LEAST_NOTICED = 0.8
_SECONDS = 300
"""A change that makes the tests hang is noticed by that."""
_ALL = ("tests/engine", "tests/evidence")
_FIRST = ("tests/evidence/test_score.py", "tests/engine/test_estimate.py", "tests/engine/phases")


def main() -> int:
    """Try the sample; 0 when enough of it is noticed."""
    parser = argparse.ArgumentParser(description="Make small mistakes in the engine and see whether tests notice.")
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(CHECKOUT, copy, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache"))
        modules = sorted((copy / "planner/engine").rglob("*.py"))
        every = [(module, place) for module in modules for place in places_of(module.read_text("utf-8"))]
        sample = random.Random(asked.seed).sample(every, min(asked.mutants, len(every)))
        for tests in (_FIRST, _ALL):
            if failing := _fails(copy, tests):
                sys.exit(f"run.py: the tests fail without any change:\n{failing}")
        noticed = 0
        for number, (module, place) in enumerate(sample, start=1):
            source = module.read_text("utf-8")
            line, what, text = changed(source, place)
            module.write_text(text, "utf-8")
            found = _tests_notice(copy, module)
            module.write_text(source, "utf-8")
            noticed += found
            name = module.relative_to(copy)
            print(f"{number}: {'noticed' if found else 'SURVIVED'} {name}:{line} {what}", flush=True)
    print(f"{noticed} of {len(sample)} were noticed")
    return int(noticed < LEAST_NOTICED * len(sample))


def _tests_notice(copy: Path, module: Path) -> bool:
    own = [str(path.relative_to(copy)) for path in sorted((copy / "tests/engine").rglob(f"test_{module.stem}.py"))]
    return any(_fails(copy, tests) for tests in (own, _FIRST, _ALL) if tests)


def _fails(copy: Path, tests: Sequence[str]) -> str:
    """What pytest told last where a test failed; nothing where all passed."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = {
        **os.environ,
        "QT_QPA_PLATFORM": "offscreen",
        "PYTHONPATH": str(copy),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return "they hang"
    return done.stdout[-2000:] if done.returncode else ""


if __name__ == "__main__":
    sys.exit(main())
