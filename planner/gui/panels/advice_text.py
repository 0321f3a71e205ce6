"""What a suggestion says of itself, in the words of its card."""

from planner.engine.advisor import Advice, Level, Outcome, Purchase, Suggestion
from planner.engine.limits import Limit
from planner.scenario import declaration_at
from planner.units import SizeUnit, format_size

LEVEL_TEXTS: dict[Level, str] = {
    "unchanged": "Same results",
    "speed": "Same results, more work",
    "numerics": "Other rounding",
    "capability": "Does less",
}
"""How much a change disturbs."""
LEVEL_ROLES: dict[Level, str] = {"unchanged": "good", "speed": "label", "numerics": "warning", "capability": "error"}
SAME_PACE = 0.005


def sizes_text(advice: Advice, suggestion: Suggestion, unit: SizeUnit) -> str:
    """`57.2 → 39.7 GiB · 4.7 GiB free`"""
    before = format_size(advice.before.process_bytes, unit, with_unit=False)
    after = suggestion.after
    text = f"{before} → {format_size(after.process_bytes, unit)}"
    headroom = after.verdict.headroom_bytes
    if headroom is None:
        return text
    return f"{text} · {format_size(abs(headroom), unit)} {'free' if headroom >= 0 else 'too much'}"


def costs_text(before: Outcome, suggestion: Suggestion, unit: SizeUnit) -> str:
    """What is paid for it: GPUs, host RAM, time at best, and the changes' own words."""
    after, parts = suggestion.after, []
    if after.gpus != before.gpus:
        parts.append(f"{before.gpus} → {after.gpus} GPUs.")
    if after.host_ram_bytes > before.host_ram_bytes:
        more = format_size(after.host_ram_bytes - before.host_ram_bytes, unit)
        parts.append(f"{more} more host RAM.")
    if before.speed is not None and after.speed is not None and before.speed.seconds:
        longer = after.speed.order[0] / before.speed.order[0]
        if abs(longer - 1) >= SAME_PACE:
            parts.append(f"About {longer:.2f} × the time, at best.")
    parts += dict.fromkeys(change.costs for change in suggestion.changes if not change.costs.startswith("None"))
    return " ".join(parts)


def sources_text(suggestion: Suggestion) -> str:
    """Where the claims come from, a line each."""
    return "\n".join(dict.fromkeys(f"{change.title}: {change.source}" for change in suggestion.changes))


def purchase_text(purchase: Purchase, titles: dict[str, str], unit: SizeUnit) -> str:
    """What to buy where nothing helps."""
    if purchase.as_it_is is None:
        parts = ["As it is, no single GPU of the catalogue holds it."]
    else:
        parts = [f"As it is, the smallest GPU that holds it is {titles.get(purchase.as_it_is, purchase.as_it_is)}."]
    if purchase.smallest is not None:
        least = format_size(purchase.smallest.after.process_bytes, unit)
        gpu = purchase.with_smallest
        where = f"fits {titles.get(gpu, gpu)}" if gpu else "fits no GPU of the catalogue"
        parts.append(f"The smallest need that was found is {least}, and {where}: {purchase.smallest.title}.")
    return " ".join(parts)


def limit_text(limit: Limit) -> str:
    """`Largest micro-batch per GPU: 3 sequences`; empty where nothing is known or nothing stops it."""
    found = declaration_at(limit.path)
    if found is None or limit.bound in ("unknown", "range"):
        return ""
    label = found.label if found.label.split()[0].isupper() else found.label[:1].lower() + found.label[1:]
    if limit.largest is None:
        return f"Largest {label}: not even {limit.next_value} fits."
    return f"Largest {label}: {limit.largest} {found.unit}".rstrip()
