"""Run every benchmark and print its ratios; exit status 1 when a limit is exceeded."""

import sys

import estimate
import fleet
import opening
import redraw
import report
import startup
import sweep


def main() -> int:
    ratios = []
    for benchmark in (estimate, sweep, fleet, opening, redraw, startup, report):
        for ratio in benchmark.measure():
            print(ratio.line(), flush=True)
            ratios.append(ratio)
    return 0 if all(ratio.kept for ratio in ratios) else 1


if __name__ == "__main__":
    sys.exit(main())
