"""Finding GPUs and servers in the catalogue: the order of lists, words in a search box, and names nobody holds."""

import re
from collections.abc import Iterable, Sequence

from planner.hardware.gpus import SEGMENTS, Gpu
from planner.hardware.nodes import Node

YEARS_CURRENT = 6
"""GPUs released longer ago than this stand at the end of lists."""

_APART = str.maketrans("-_/", "   ")
_VENDORS = ("NVIDIA", "AMD", "Intel")


def picker_order(gpus: Iterable[Gpu], as_of: str) -> tuple[Gpu, ...]:
    """Current data-centre GPUs first, newest, largest and fastest in front; then other kinds; then what is old."""
    oldest = int(as_of[:4]) - YEARS_CURRENT

    def place(gpu: Gpu) -> tuple[bool, int, int, int, int, float, str]:
        vendor = _VENDORS.index(gpu.vendor) if gpu.vendor in _VENDORS else len(_VENDORS)
        old = gpu.release_year < oldest
        size, speed = gpu.memory.marketing_gb, gpu.speed.bandwidth_gb_per_s
        return old, SEGMENTS.index(gpu.segment), vendor, -gpu.release_year, -size, -speed, gpu.id

    return tuple(sorted(gpus, key=place))


def search(
    ordered: Iterable[Gpu], text: str = "", vendor: str | None = None, min_memory_gb: float | None = None
) -> tuple[Gpu, ...]:
    """GPUs that hold every word of `text` somewhere in their names, best match first, else in the given order.

    `min_memory_gb` is compared with the label. Spaces and hyphens make no difference: `rtx4090`, `80 GB`.
    """
    words = _words(text)
    found = [
        gpu
        for gpu in ordered
        if (vendor is None or gpu.vendor == vendor)
        and (min_memory_gb is None or gpu.memory.marketing_gb >= min_memory_gb)
        and all(any(word in name for name in _names(gpu)) for word in words)
    ]
    return tuple(sorted(found, key=lambda gpu: _rank(gpu, words)))


def search_nodes(nodes: Iterable[Node], text: str = "") -> tuple[Node, ...]:
    """Servers that hold every word of `text` somewhere in their names, the common ones first."""
    words = _words(text)
    found = [node for node in nodes if all(any(word in name for name in _node_names(node)) for word in words)]
    return tuple(sorted(found, key=lambda node: (not node.common, node.provider, node.id)))


def near_ids(gpus: Sequence[Gpu], text: str, count: int = 3) -> tuple[str, ...]:
    """Ids that somebody who wrote `text` may have meant, most likely first."""
    from difflib import get_close_matches

    wanted = text.casefold()
    found = [gpu.id for gpu in search(gpus, wanted)]
    similar = get_close_matches(wanted, [gpu.id for gpu in gpus], n=count, cutoff=0.5)
    words = [gpu.id for word in wanted.translate(_APART).split() if len(word) > 1 for gpu in search(gpus, word)]
    return tuple(dict.fromkeys((*found, *similar, *words)))[:count]


def distinct_labels(names: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """For pairs of label and title: the label where it is unique among them, else the title."""
    labels = [label for label, _ in names]
    return tuple(label if labels.count(label) == 1 else title for label, title in names)


def _rank(gpu: Gpu, words: Sequence[str]) -> int:
    if not words:
        return 0
    label = _squash(gpu.label.casefold())
    wanted = "".join(words)
    return 0 if wanted == label else 1 if label.startswith(wanted) else 2


def _words(text: str) -> list[str]:
    return re.sub(r"(\d)\s+gb\b", r"\1gb", text.casefold()).translate(_APART).split()


def _names(gpu: Gpu) -> tuple[str, ...]:
    names = (gpu.id, gpu.title, gpu.name, gpu.vendor, gpu.architecture, gpu.segment, gpu.gfx)
    return tuple(_squash(name.casefold()) for name in names)


def _node_names(node: Node) -> tuple[str, ...]:
    return tuple(_squash(name.casefold()) for name in (node.id, node.name, node.provider, node.category, node.gpu))


def _squash(text: str) -> str:
    return "".join(text.translate(_APART).split())
