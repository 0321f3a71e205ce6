"""Feeds damaged files to every reader: `python tests/fuzzing/run.py [--files N] [--seed S] [--reader NAME]`.

Fails with the file's name on an error that is not the planner's own, on more than two seconds for one file, and when
the process comes to hold more than 300 MB. What failed stays in `fuzzed/`.
"""

import argparse
import random
import resource
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from mutation import mutated
from readers import Reader, readers

MOST_SECONDS = 2.0
MOST_BYTES = 300e6


def main() -> int:
    """Feed the files; returns the number of readers that failed."""
    parser = argparse.ArgumentParser(description="Feed damaged files to every reader.")
    parser.add_argument("--files", type=int, default=11_000, help="how many, shared among the readers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reader", help="only this one")
    asked = parser.parse_args()
    chosen = [reader for reader in readers() if asked.reader in (None, reader.name)]
    failed = 0
    for reader in chosen:
        failed += not _feed(reader, asked.files // len(chosen), random.Random(f"{asked.seed} {reader.name}"))
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"most memory: {most / 1e6:.0f} MB")
    if most > MOST_BYTES:
        print(f"that is more than {MOST_BYTES / 1e6:.0f} MB")
        failed += 1
    return failed


def _feed(reader: Reader, count: int, chance: random.Random) -> bool:
    refused, slowest = 0, 0.0
    sound = len(reader.seeds)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(sound + count):
            content = reader.seeds[number] if number < sound else mutated(reader.seeds, chance)
            start = time.perf_counter()
            try:
                told = reader.feed(content, Path(folder))
            except Exception:
                return _failed(reader, content, traceback.format_exc())
            spent = time.perf_counter() - start
            if told and number < sound:
                return _failed(reader, content, f"refuses a sound file: {told}")
            if spent > MOST_SECONDS:
                return _failed(reader, content, f"took {spent:.1f} s")
            refused += bool(told)
            slowest = max(slowest, spent)
    print(f"{reader.name}: {count} files, {refused} refused, the slowest in {slowest:.2f} s", flush=True)
    return True


def _failed(reader: Reader, content: bytes, why: str) -> bool:
    kept = Path("fuzzed") / f"{reader.name}-{abs(hash(content)) % 10**8}{reader.suffix}"
    kept.parent.mkdir(exist_ok=True)
    kept.write_bytes(content)
    print(f"{reader.name}: {kept}\n{why}", file=sys.stderr, flush=True)
    return False


if __name__ == "__main__":
    sys.exit(main())
