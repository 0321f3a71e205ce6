"""`vram-planner validate`: the engine against measured cases."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from planner.cli.arguments import AsJson


def command(
    corpora: Annotated[
        list[Path] | None, typer.Argument(metavar="[CORPUS]...", help="Corpus files; those that ship, when none.")
    ] = None,
    as_json: AsJson = False,
    cases: Annotated[bool, typer.Option("--cases/--summary", help="Print every case, or only the summary.")] = True,
    write_bands: Annotated[
        bool, typer.Option("--write-bands", help="Write the bands that these cases support into resources/.")
    ] = False,
) -> None:
    """Score estimates against measured or traced cases. Exit status 2 when a case could not be read."""
    from planner.catalog import load_catalog
    from planner.evidence.corpus import load_corpus, shipped_corpora
    from planner.evidence.score import join, score_corpus

    catalog = load_catalog()
    read = [load_corpus(path) for path in corpora or shipped_corpora()]
    scores = [score_corpus(corpus, catalog) for corpus in read]
    if as_json:
        score = scores[0] if len(scores) == 1 else join(scores)
        json.dump(score.to_json(), sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        from planner.cli.score_tables import print_score

        for score in scores:
            print_score(score, with_cases=cases)
    if write_bands:
        from planner.evidence.bands import write_bands as write

        for name, count in write(zip(read, scores, strict=True)).items():
            print(f"band of {name!r} written from {count} measured peaks", file=sys.stderr)
    if any(score.failed for score in scores):
        raise typer.Exit(2)
