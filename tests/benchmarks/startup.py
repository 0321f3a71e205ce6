"""Until our window is painted with its chart and its numbers ÷ until a bare script has painted an empty plot."""

import os
import subprocess
import sys
from pathlib import Path

from harness import Ratio, compare

HERE = Path(__file__).resolve().parent


def measure(rounds: int = 9) -> list[Ratio]:
    environment = {**os.environ, "QT_QPA_PLATFORM": os.environ.get("QT_QPA_PLATFORM", "offscreen")}

    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program has its bytecode, as the libraries have

    def run(*arguments: str) -> None:
        subprocess.run([sys.executable, *arguments], check=True, env=environment, stdout=subprocess.DEVNULL)

    return [
        compare(
            "start to first paint ÷ bare PySide6 and pyqtgraph script",
            lambda: run("-m", "planner", "--exit-after-first-paint"),
            lambda: run(str(HERE / "bare_window.py")),
            limit=1.3,
            rounds=rounds,
        )
    ]


if __name__ == "__main__":
    for ratio in measure():
        print(ratio.line())
