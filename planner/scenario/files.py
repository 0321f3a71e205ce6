"""Scenario files: read with a clear message for everything that can be wrong, written so that nothing is lost."""

import json
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from planner.errors import ScenarioError
from planner.scenario.json_tree import flaw_of
from planner.scenario.migrations import migrated
from planner.scenario.scenario import FORMAT, Scenario

MAX_FILE_BYTES = 10 * 1024 * 1024
OTHER_FORMATS = {
    "vram-planner/plan": "This is a plan, the result of an estimate, and not a scenario.",
    "vram-planner/corpus": "This is a corpus of measured cases. Use `vram-planner validate` with it.",
    "vram-planner/score": "This is the score of a corpus, and not a scenario.",
}


def load_scenario(path: Path) -> Scenario:
    """The scenario in a file. Raises `ScenarioError`, which names the file and says what to do."""
    content = read_small_file(path)
    try:
        return scenario_from_json(content)
    except ScenarioError as error:
        raise ScenarioError(f"{path.name} cannot be opened. {error.message}", error.issues) from None


def save_scenario(scenario: Scenario, path: Path) -> None:
    """Write a scenario whole or not at all: an existing file stays as it was until the new one is on disk."""
    write_atomically(path, scenario_to_json(scenario).encode())


def scenario_to_json(scenario: Scenario) -> str:
    """The file's text: what was stated, indented, with a newline at the end."""
    return json.dumps(scenario.to_document(), ensure_ascii=False, indent=2) + "\n"


def scenario_from_json(content: str | bytes | dict[str, Any]) -> Scenario:
    """A scenario from its file's text, or from the object in it. Raises `ScenarioError` for whatever is wrong."""
    document = content if isinstance(content, dict) else parse_json(content)
    if not isinstance(document, dict):
        raise ScenarioError("It does not hold a scenario, which is a JSON object in braces.")
    form = document.get("format")
    if form != FORMAT:
        raise ScenarioError(_not_a_scenario(form, document))
    return Scenario.of(migrated(document))


def _not_a_scenario(form: object, document: dict[str, Any]) -> str:
    if isinstance(form, str) and form in OTHER_FORMATS:
        return OTHER_FORMATS[form]
    if "model_type" in document or "architectures" in document:
        return "This is the configuration of a model. Import it as a model instead."
    return f'It is not a scenario: its "format" is not "{FORMAT}".'


def parse_json(text: str | bytes) -> Any:
    """Strict JSON: no NaN, no name twice in one object, nothing deeper than people write. Raises `ScenarioError`."""
    try:
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text
    except UnicodeDecodeError:
        raise ScenarioError("It is not a text file. A scenario is JSON text in UTF-8.") from None
    if "\0" in decoded:
        raise ScenarioError("It is not a text file. A scenario is JSON text in UTF-8.")
    if not decoded.strip():
        raise ScenarioError("It is empty.")
    try:
        tree = json.loads(decoded, object_pairs_hook=_without_doubles, parse_constant=_constant)
    except json.JSONDecodeError as error:
        raise ScenarioError(_syntax(error, decoded)) from None
    except RecursionError:
        raise ScenarioError("It is nested too deeply.") from None
    except ValueError:
        raise ScenarioError("It holds a number with too many digits.") from None
    flaw = flaw_of(tree)
    if flaw:
        raise ScenarioError(flaw)
    return tree


def _syntax(error: json.JSONDecodeError, text: str) -> str:
    where = f"line {error.lineno}, column {error.colno}"
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        return f"It ends too early ({where}), as if it had been cut off while it was copied or saved."
    return f"It is not valid JSON at {where}: {error.msg[:1].lower()}{error.msg[1:]}."


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    tree = dict(pairs)
    if len(tree) < len(pairs):
        seen: set[str] = set()
        double = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ScenarioError(f'The name "{double[:60]}" stands twice in the same object. Remove one of the two.')
    return tree


def _constant(name: str) -> float:
    if name == "NaN":
        raise ScenarioError("It holds NaN, which is not a number that can be planned with.")
    return float(name.replace("Infinity", "inf"))


def read_small_file(path: Path, limit: int = MAX_FILE_BYTES) -> bytes:
    """The bytes of an ordinary file of at most `limit` bytes. Raises `ScenarioError` for anything else."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise ScenarioError(f"{path} is a folder. Choose a file in it.")
        if not stat.S_ISREG(mode):
            raise ScenarioError(f"{path} is a device, and not a file.")
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except FileNotFoundError:
        raise ScenarioError(f"{path} does not exist. Check the name and the folder.") from None
    except PermissionError:
        raise ScenarioError(f"{path} may not be read. Ask for permission, or copy it elsewhere.") from None
    except (OSError, ValueError) as error:
        raise ScenarioError(f"{_printable(path)} cannot be read: {_reason(error)}.") from None
    if len(content) > limit:
        raise ScenarioError(f"{path} is larger than {limit // 1024**2} MiB, far more than a scenario is.")
    return content


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file by a complete new one, keeping its permissions. Raises `ScenarioError`; the old file stays."""
    try:
        target = path.resolve()
        if target.is_dir():
            raise ScenarioError(f"{path} is a folder. Choose a file name in it.")
        if target.exists() and not os.access(target, os.W_OK):
            raise ScenarioError(f"{path} is write-protected. Save under another name.")
        _replace(target, content)
    except FileNotFoundError:
        raise ScenarioError(f"{path} cannot be saved: its folder does not exist. Choose another place.") from None
    except PermissionError:
        raise ScenarioError(f"{path} cannot be saved: its folder is read-only. Choose another place.") from None
    except (OSError, ValueError, RuntimeError) as error:
        raise ScenarioError(f"{_printable(path)} cannot be saved: {_reason(error)}. Nothing was changed.") from None


def _replace(target: Path, content: bytes) -> None:
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".vramplan-", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(_permissions(target))
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    _settle(target.parent)


def _permissions(target: Path) -> int:
    """Those of the existing file, or what the user's umask gives a new one (mkstemp gives 0600)."""
    with suppress(FileNotFoundError):
        return stat.S_IMODE(target.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _settle(folder: Path) -> None:
    """Make the renaming itself durable, where the system can sync a folder (Windows cannot)."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def _printable(path: Path) -> str:
    text = str(path).encode("utf-8", "replace").decode().replace("\0", "�")
    return text if len(text) <= 200 else f"{text[:197]}…"
