"""Opening files that may be anything: ordinary ones only, read no further than a limit, JSON without surprises."""

import json
import stat
from pathlib import Path
from typing import Any

from planner.errors import ModelError

MAX_CONFIG_BYTES = 16 * 1024**2
MAX_DEPTH = 64


def file_size(path: Path) -> int:
    """The size of an ordinary file; `ModelError` for folders, devices, loops and what may not be read."""
    try:
        status = path.stat()
    except FileNotFoundError:
        raise ModelError(f"{path} does not exist. Check the name and the folder.") from None
    except PermissionError:
        raise ModelError(f"{path} may not be read. Ask for permission, or copy it elsewhere.") from None
    except (OSError, ValueError, RuntimeError) as problem:
        raise ModelError(f"{path!r} cannot be read: {_reason(problem)}.") from None
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a device"
        raise ModelError(f"{path} is {kind}, and not a file.")
    return status.st_size


def read_start(path: Path, length: int) -> bytes:
    """The first `length` bytes of an ordinary file, or fewer where it ends before."""
    file_size(path)
    try:
        with path.open("rb") as file:
            return file.read(length)
    except PermissionError:
        raise ModelError(f"{path} may not be read. Ask for permission, or copy it elsewhere.") from None
    except OSError as problem:
        raise ModelError(f"{path} cannot be read: {_reason(problem)}.") from None


def read_json(path: Path, limit: int = MAX_CONFIG_BYTES) -> dict[str, Any]:
    """The object in a JSON file of at most `limit` bytes."""
    content = read_start(path, limit + 1)
    if len(content) > limit:
        raise ModelError(f"{path} is larger than {limit // 1024**2} MiB, far more than a configuration is.")
    return parse_object(content, str(path))


def parse_object(content: bytes, where: str) -> dict[str, Any]:
    """The object in UTF-8 JSON, without doubled keys or deep nesting."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ModelError(f"{where} is not text in UTF-8, so it is no JSON file.") from None
    try:
        tree = json.loads(text, object_pairs_hook=_unique(where), parse_constant=_constant(where))
    except RecursionError:
        raise ModelError(f"{where} is nested too deeply to be a configuration.") from None
    except ValueError as problem:
        place = f" (line {problem.lineno})" if isinstance(problem, json.JSONDecodeError) else ""
        raise ModelError(f"{where} is no valid JSON{place}: it is damaged or of another kind.") from None
    if not isinstance(tree, dict):
        raise ModelError(f"{where} must hold a JSON object with keys and values.")
    if _depth(tree) > MAX_DEPTH:
        raise ModelError(f"{where} is nested more than {MAX_DEPTH} levels deep.")
    return tree


def _unique(where: str) -> Any:
    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        tree = dict(pairs)
        if len(tree) < len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    raise ModelError(f"{where}: the key “{key[:60]}” stands twice in the same object.")
                seen.add(key)
        return tree

    return build


def _constant(where: str) -> Any:
    def build(name: str) -> float:
        if name == "NaN":
            raise ModelError(f"{where} holds NaN, which is not a number that can be planned with.")
        return float(name.replace("Infinity", "inf"))

    return build


def _depth(tree: Any) -> int:
    deepest, pending = 0, [(tree, 1)]
    while pending:
        node, depth = pending.pop()
        deepest = max(deepest, depth)
        if depth <= MAX_DEPTH and isinstance(node, dict | list):
            pending += [(part, depth + 1) for part in (node.values() if isinstance(node, dict) else node)]
    return deepest


def _reason(problem: BaseException) -> str:
    reason = problem.strerror if isinstance(problem, OSError) else str(problem)
    return reason or type(problem).__name__
