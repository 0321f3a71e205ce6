"""One estimate of all six phases ÷ one training estimate of vramcalc.

Both are asked something new at every call (another sequence length), as a person's edit would. vramcalc is called as
its documentation shows, with the path of a config.json, and for comparison with the file's content already read.
"""

import itertools
import json
from pathlib import Path

from harness import Ratio, compare
from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.scenario import Scenario, load_scenario

DATA = Path(__file__).resolve().parent.parent / "cli" / "data"
LENGTHS = tuple(range(1024, 8192, 64))


def scenarios() -> list[Scenario]:
    """The same six-phase plan at many sequence lengths."""
    scenario = load_scenario(DATA / "llama.vramplan")
    for_length = []
    for length in LENGTHS:
        changed = scenario
        for phase in ("training", "fine_tuning", "evaluation"):
            changed = changed.with_value(("phases", phase, "sequence_length"), length)
        for_length.append(changed.with_value(("phases", "serving", "context_length"), length))
    return for_length


def measure(rounds: int = 15) -> list[Ratio]:
    import vramcalc

    catalog = load_catalog()
    ours = itertools.cycle(scenarios())
    lengths = itertools.cycle(LENGTHS)
    path = DATA / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))

    def peer(model: object) -> object:
        return vramcalc.estimate(model, mode="train", seq_len=next(lengths), grad_checkpoint=True)

    return [
        compare(
            f"six-phase estimate ÷ training estimate of vramcalc{how}",
            lambda: estimate(next(ours), catalog),
            lambda model=model: peer(model),
            limit=limit,
            rounds=rounds,
            calls=(20, 200),
        )
        for how, model, limit in ((", from its file", str(path), 15.0), (", its file already read", config, None))
    ]


if __name__ == "__main__":
    for ratio in measure():
        print(ratio.line())
