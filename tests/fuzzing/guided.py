"""Feeds files to every reader that find new paths through it: `python tests/fuzzing/guided.py [--seconds N]`.

Needs atheris (the extra `fuzzing`), which watches what is executed. A reader's process fails on an error that is not
the planner's, on two seconds for one file, and on 300 MB; what failed stays in `fuzzed/`.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAMES = (
    *("plan", "config", "folder", "pipeline", "safetensors", "gguf", "hub", "corpus"),
    *("report-html", "report-md", "report-xlsx", "report-pptx", "report-pdf", "report-csv"),
)


def main() -> int:
    """Share the time among the readers; returns how many failed."""
    parser = argparse.ArgumentParser(description="Feed files that find new paths to every reader.")
    parser.add_argument("--seconds", type=int, default=60, help="for all readers together")
    parser.add_argument("--reader", choices=NAMES, help="only this one, in this process")
    asked = parser.parse_args()
    if asked.reader:
        _guided(asked.reader, asked.seconds)
    share = max(1, asked.seconds // len(NAMES))
    command = [sys.executable, __file__, "--seconds", str(share), "--reader"]
    failed = [name for name in NAMES if subprocess.run([*command, name], check=False).returncode]
    print(f"failed: {', '.join(failed) or 'none'}")
    return len(failed)


def _guided(name: str, seconds: int) -> None:
    """Does not return: the fuzzer ends the process."""
    import atheris

    sys.path.insert(0, str(HERE))
    with atheris.instrument_imports(include=["planner"]):
        from readers import readers
    reader = next(each for each in readers() if each.name == name)
    folder = Path(tempfile.mkdtemp())
    corpus, kept = folder / "corpus", Path("fuzzed")
    corpus.mkdir()
    kept.mkdir(exist_ok=True)
    for number, seed in enumerate(reader.seeds):
        (corpus / str(number)).write_bytes(seed)
    limits = [f"-max_total_time={seconds}", "-timeout=2", "-rss_limit_mb=300", "-max_len=20000", "-verbosity=0"]
    atheris.Setup(
        [sys.argv[0], *limits, "-print_final_stats=1", f"-artifact_prefix={kept}/{name}-", str(corpus)],
        lambda content: reader.feed(content, folder),
    )
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
