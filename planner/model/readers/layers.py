"""Layers that alternate: which are alike, and which look through a window."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from planner.model.readers.config import Config
from planner.model.spec import LayerGroup


def merged(layers: Iterable[LayerGroup]) -> tuple[LayerGroup, ...]:
    """Equal layers become one group; where kinds alternate each group knows its layers' indices."""
    places: dict[LayerGroup, list[int]] = {}
    index = 0
    for layer in layers:
        places.setdefault(layer, []).extend(range(index, index + layer.count))
        index += layer.count
    consecutive = all(found[-1] - found[0] + 1 == len(found) for found in places.values())
    return tuple(
        replace(layer, count=len(found), indices=() if consecutive else tuple(found)) for layer, found in places.items()
    )


MOST_LAYERS = 10_000


def layer_count(config: Config, key: str = "num_hidden_layers") -> int:
    return config.size(key, maximum=MOST_LAYERS)


def every(period: int, layers: int) -> list[bool]:
    """True for all but every `period`-th layer: the sliding layers of the n:1 patterns."""
    return [(index + 1) % period != 0 for index in range(layers)]


def windows(config: Config, layers: int, sliding: Sequence[bool] | None = None) -> list[int | None]:
    """The window of each layer: from `layer_types` if stated, else where `sliding` says so, else none."""
    types = config.texts("layer_types", layers)
    window = config.optional_size("sliding_window")
    if types is not None:
        chunk = config.optional_size("attention_chunk_size")
        sizes = {"sliding_attention": window, "chunked_attention": chunk}
        return [sizes.get(kind) for kind in types]
    return [window if index and window else None for index in (sliding or [False] * layers)]
