"""Draws the icon from its SVG: PNG in the usual sizes, ICO for Windows, ICNS for macOS. Run by `freeze.py`."""

import struct
import sys
from pathlib import Path

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, Qt
from PySide6.QtGui import QGuiApplication, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

from planner.resources import resource

SIZES = (16, 24, 32, 48, 64, 128, 256, 512)
_ICO_SIZES = (16, 24, 32, 48, 64, 128, 256)
_ICNS_TYPES = {16: b"icp4", 32: b"icp5", 64: b"icp6", 128: b"ic07", 256: b"ic08", 512: b"ic09"}


def main(folder: Path) -> None:
    """Write everything into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {size: _png(size) for size in SIZES}
    for size, picture in pictures.items():
        (folder / f"vram-planner-{size}.png").write_bytes(picture)
    (folder / "vram-planner.ico").write_bytes(_ico({size: pictures[size] for size in _ICO_SIZES}))
    (folder / "vram-planner.icns").write_bytes(_icns({size: pictures[size] for size in _ICNS_TYPES}))


def _png(size: int) -> bytes:
    image = QImage(size, size, QImage.Format.Format_ARGB32)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    QSvgRenderer(str(resource("icons", "app.svg"))).render(painter)
    painter.end()
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG")
    return bytes(data.data())


def _ico(pictures: dict[int, bytes]) -> bytes:
    """An ICO file of PNG pictures, as Windows reads it since Vista: a header, a 16-byte entry each, the pictures."""
    offset = 6 + 16 * len(pictures)
    header, body = struct.pack("<HHH", 0, 1, len(pictures)), b""
    for size, picture in pictures.items():
        side = size % 256  # 0 stands for 256
        header += struct.pack("<BBBBHHII", side, side, 0, 0, 1, 32, len(picture), offset + len(body))
        body += picture
    return header + body


def _icns(pictures: dict[int, bytes]) -> bytes:
    """An ICNS file of PNG pictures: each with its type and length, lengths counting their own headers."""
    parts = b"".join(
        _ICNS_TYPES[size] + struct.pack(">I", 8 + len(picture)) + picture for size, picture in pictures.items()
    )
    return b"icns" + struct.pack(">I", 8 + len(parts)) + parts


if __name__ == "__main__":
    app = QGuiApplication([])
    main(Path(sys.argv[1]))
