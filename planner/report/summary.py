"""The first sentences of a report: does it fit, which phase decides, and what stands around the GPUs."""

from collections.abc import Sequence

from planner.engine.plan import Programme, VerdictKind
from planner.hardware import ChosenGpu
from planner.report.parts import PhasePart, VerdictRow
from planner.units import SizeUnit, format_size

_WORST_FIRST: tuple[VerdictKind, ...] = ("oom", "unknown", "tight", "fits")
_SENTENCES: dict[VerdictKind, tuple[str, str]] = {
    "oom": ("{phases} does not fit {gpu}.", "{phases} do not fit {gpu}."),
    "unknown": ("Whether {phases} fits {gpu} is not known.", "Whether {phases} fit {gpu} is not known."),
    "tight": ("{phases} is tight on {gpu}.", "{phases} are tight on {gpu}."),
    "fits": ("{phases} fits {gpu}.", "{phases} fit {gpu}."),
}
"""Of one phase, and of several."""


def judged(part: PhasePart) -> VerdictRow | None:
    """The verdict of the judging GPU."""
    return next((row for row in part.verdicts if row.judge), None)


def binding_of(parts: Sequence[PhasePart]) -> PhasePart | None:
    """The phase that decides: the worst verdict on the judging GPU, and among equal ones the least room."""
    on_gpu = [part for part in parts if part.peak.process_bytes]
    return min(on_gpu, key=_rank, default=None)


def _rank(part: PhasePart) -> tuple[int, int]:
    row = judged(part)
    if row is None:
        return len(_WORST_FIRST), -part.peak.process_bytes
    room = row.headroom_bytes if row.headroom_bytes is not None else -row.need_bytes
    return _WORST_FIRST.index(row.verdict), room


def summary_of(
    parts: Sequence[PhasePart], whole: Programme, judge: ChosenGpu | None, unit: SizeUnit
) -> tuple[str, ...]:
    """Sentences, the answer first."""
    sentences = [_answer(parts, judge)]
    binding = binding_of(parts)
    row = judged(binding) if binding else None
    if binding is not None:
        need = format_size(binding.peak.process_bytes, unit)
        low, high = (format_size(end, unit) for end in (binding.peak.low_bytes, binding.peak.high_bytes))
        sentence = f"{binding.title} decides: each GPU needs {need} {binding.when}, with uncertainty {low} to {high}"
        if row is not None and row.capacity_bytes is not None:
            capacity = format_size(row.capacity_bytes, unit)
            sentence += f"; on {row.where} {format_size(row.need_bytes, unit)} stand against {capacity} ({row.text})"
        sentences.append(f"{sentence}.")
    if whole.host_ram_bytes or whole.storage_bytes:
        ram, disk, bought = (
            format_size(size, unit)
            for size in (whole.host_ram_bytes, whole.storage_bytes, whole.required_storage_bytes)
        )
        sentences.append(
            f"All phases together need {ram} of RAM in each server and {disk} on disk: file systems of {bought} or "
            "more, as only four fifths can be relied on."
        )
    return tuple(sentences)


def _answer(parts: Sequence[PhasePart], judge: ChosenGpu | None) -> str:
    rows = [row for part in parts if part.peak.process_bytes and (row := judged(part)) is not None]
    if not parts:
        return "No phase is planned."
    if judge is None or not rows:
        return "No phase needs a GPU."
    if all(row.verdict == "fits" for row in rows):
        return f"Every planned phase fits {judge.name}."
    told = []
    for kind in _WORST_FIRST:
        names = [row.phase for row in rows if row.verdict == kind]
        if names:
            told.append(_SENTENCES[kind][len(names) > 1].format(phases=_listed(names), gpu=judge.name))
    return " ".join(told)


def _listed(names: Sequence[str]) -> str:
    """`Training, Evaluation and Serving`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
