"""Pictures that a person brings, such as a company's logo, as PNG for documents that hold nothing else."""

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QSize, Qt
from PySide6.QtGui import QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

from planner.chart.paint.application import painting_application


def png_of(content: bytes, vector: bool, largest: tuple[int, int]) -> bytes | None:
    """The picture as PNG, scaled down to `largest` pixels where it is larger; None where it cannot be read."""
    painting_application()
    image = _drawn(content, QSize(*largest)) if vector else QImage.fromData(QByteArray(content))
    if image.isNull():
        return None
    if image.width() > largest[0] or image.height() > largest[1]:
        image = image.scaled(
            QSize(*largest), Qt.AspectRatioMode.KeepAspectRatio, Qt.TransformationMode.SmoothTransformation
        )
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG")  # type: ignore[call-overload]
    return bytes(buffer.data().data())


def _drawn(content: bytes, largest: QSize) -> QImage:
    drawing = QSvgRenderer(QByteArray(content))
    size = drawing.defaultSize().scaled(largest, Qt.AspectRatioMode.KeepAspectRatio)
    if not drawing.isValid() or size.isEmpty():
        return QImage()
    image = QImage(size, QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    drawing.render(painter)
    painter.end()
    return image
