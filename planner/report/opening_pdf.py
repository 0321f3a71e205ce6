"""The scenario that is attached to a PDF report. Only what VRAM Planner's own files need of the format is read."""

import re
import zlib

from planner.errors import ScenarioError

LARGEST_BYTES = 32 * 1024 * 1024
DAMAGED = "What is attached to it is damaged."
_ATTACHED = re.compile(rb"/EF\s*<<\s*/F (\d{1,9}) 0 R")


def text_of_pdf(content: bytes) -> str | None:
    """The attached file as text; None where there is none that can be found without reading the whole format."""
    if not content.startswith(b"%PDF-"):
        raise ScenarioError("It is not a PDF document, or it is damaged.")
    named = _ATTACHED.findall(content)
    if not named:
        return None
    start = content.rfind(b"\n%d 0 obj" % int(named[-1]))
    head = content.find(b"stream", start)
    end = content.find(b"endstream", head + len(b"stream"))
    if min(start, head, end) < 0:
        return None
    packed = content[head + len(b"stream") : end].removeprefix(b"\r").removeprefix(b"\n")
    try:
        return _unpacked(packed, b"/FlateDecode" in content[start:head]).decode("utf-8")
    except (zlib.error, UnicodeDecodeError):
        raise ScenarioError(DAMAGED) from None


def _unpacked(packed: bytes, deflated: bool) -> bytes:
    if not deflated:
        return packed
    reader = zlib.decompressobj()
    found = reader.decompress(packed, LARGEST_BYTES)
    if reader.unconsumed_tail:
        raise ScenarioError(DAMAGED)
    return found
