"""Damages sound files: bytes, numbers, and the values and names of JSON, each choice from a seeded generator."""

import json
import random
import re
from typing import Any

_NUMBER = re.compile(rb"-?\d+")
_NUMBERS = (0, -1, 1, 2, 3, 7, 127, 255, 65535, 2**31, 2**32 - 1, 2**63 - 1, 2**64, 10**30, 1e308, -0.5, 1e-9)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, "", "x", "../../etc/passwd", "\x00", "显存" * 40, "<script>", "=cmd()", "auto", "bf16"),
    *("x" * 3000, [], [[]], [None], {}, {"a": {}}, [0] * 100, *_NUMBERS),
)
_SIZES = (1, 2, 3, 4, 7, 8, 64, 1000, 4096, 2**20, 2**31 - 1)
_ODD = (0, 1, 0x22, 0x7B, 0x7F, 0x80, 0xFF)


def mutated(seeds: tuple[bytes, ...], chance: random.Random) -> bytes:
    """One of the files with one to four damages."""
    content = chance.choice(seeds)
    for _ in range(chance.choice((1, 1, 2, 4))):
        content = chance.choice((_bytes, _cut, _repeat, _number, _json, _json, _json))(content, seeds, chance)
    return content


def _bytes(content: bytes, _seeds: tuple[bytes, ...], chance: random.Random) -> bytes:
    """Overwrite a few bytes."""
    changed = bytearray(content or b"\0")
    for _ in range(chance.randint(1, 8)):
        changed[chance.randrange(len(changed))] = chance.choice((*_ODD, chance.randrange(256)))
    return bytes(changed)


def _cut(content: bytes, _seeds: tuple[bytes, ...], chance: random.Random) -> bytes:
    """Leave out a part, or all that follows."""
    start = chance.randrange(len(content) + 1)
    end = len(content) if chance.random() < 0.3 else min(len(content), start + chance.randint(1, 64))
    return content[:start] + content[end:]


def _repeat(content: bytes, seeds: tuple[bytes, ...], chance: random.Random) -> bytes:
    """Put in a part of this file or of another, once or often."""
    other = chance.choice(seeds)
    start = chance.randrange(len(other) + 1)
    part = other[start : start + chance.randint(1, 64)] * chance.choice((1, 1, 2, 50))
    at = chance.randrange(len(content) + 1)
    return content[:at] + part + content[at:]


def _number(content: bytes, _seeds: tuple[bytes, ...], chance: random.Random) -> bytes:
    """Write another number in place of one."""
    places = list(_NUMBER.finditer(content[:200_000]))
    if not places:
        return _bytes(content, _seeds, chance)
    place = chance.choice(places)
    return content[: place.start()] + str(chance.choice(_NUMBERS)).encode() + content[place.end() :]


def _json(content: bytes, seeds: tuple[bytes, ...], chance: random.Random) -> bytes:
    """Change a value somewhere in the tree, take it away, or put a part of another tree there."""
    try:
        tree, other = json.loads(content), json.loads(chance.choice(seeds))
    except (ValueError, RecursionError):
        return _number(content, seeds, chance)
    holders: list[Any] = []
    _collect(tree, holders)
    parts: list[Any] = []
    _collect(other, parts)
    if holders:
        holder = chance.choice(holders)
        key = chance.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
        value = chance.choice(parts) if parts and chance.random() < 0.2 else chance.choice(_VALUES)
        match chance.randrange(4):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[f"{key}_"] = holder.pop(key)
            case 2 if isinstance(holder[key], int):  # of the same kind, so that more than the first check is reached
                holder[key] = not holder[key] if isinstance(holder[key], bool) else chance.choice(_SIZES)
            case _:
                holder[key] = value
    return json.dumps(tree).encode()


def _collect(tree: Any, found: list[Any]) -> None:
    if isinstance(tree, dict | list) and tree:
        found.append(tree)
        for value in tree.values() if isinstance(tree, dict) else tree:
            _collect(value, found)
