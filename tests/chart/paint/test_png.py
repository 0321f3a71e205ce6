"""Pictures of pixels: size, a few probes, hatching, transparency."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtGui import QColor, QImage

from planner.chart.geometry import Rect
from planner.chart.layout import ChartLayout, lay_out
from planner.chart.paint import ChartStyle, chart_image, export_chart
from planner.chart.paint.fonts import text_width
from planner.chart.palette import COMPONENT_COLOURS, DARK
from planner.chart.spec import ChartSpec

Chart = Callable[..., ChartSpec]
HATCH = QColor("#C0262D").rgb()


def layout_of(spec: ChartSpec) -> ChartLayout:
    return lay_out(spec, Rect(0, 0, 960, 560), text_width)


def colour_at(image: QImage, x: float, y: float) -> str:
    ratio = image.devicePixelRatio()
    return image.pixelColor(int(x * ratio), int(y * ratio)).name().upper()


def test_a_png_has_the_asked_size_and_says_what_it_shows(mockup: Chart, tmp_path: Path) -> None:
    path = tmp_path / "chart.png"
    export_chart(mockup(title="A & B"), path, width=800, height=500, scale=3)
    image = QImage(str(path))
    assert (image.width(), image.height()) == (2400, 1500)
    assert image.dotsPerMeterX() == pytest.approx(3 * 96 / 0.0254, abs=1)
    assert image.text("Title") == "A & B"
    assert "Training: 59.1 GiB" in image.text("Description")


def test_the_clipboards_image_carries_its_pixel_ratio(mockup: Chart) -> None:
    image = chart_image(mockup(), width=400, height=300, scale=2)
    assert (image.width(), image.height(), image.devicePixelRatio()) == (800, 600, 2)


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_the_middle_of_every_segment_has_its_colour(mockup: Chart, scale: float) -> None:
    spec = mockup()
    image = chart_image(spec, scale=scale)
    probed = 0
    for shape in layout_of(spec).bars:
        for segment, rect in shape.segments:
            if rect.height >= 4 and not (shape.overflow and rect.overlaps(shape.overflow)):
                assert colour_at(image, rect.x + 6, rect.centre_y) == COMPONENT_COLOURS[segment.component]
                probed += 1
    assert probed == 13


def test_the_overflow_is_hatched_and_the_rest_is_not(mockup: Chart) -> None:
    spec = mockup()
    image = chart_image(spec, scale=1)
    training = layout_of(spec).bars[2]
    assert training.overflow

    def hatched(low: float, high: float) -> float:
        pixels = [
            image.pixel(x, y)
            for x in range(int(training.slot.left) + 3, int(training.slot.left + training.slot.width) - 3)
            for y in range(int(low) + 3, int(high) - 3)
        ]
        return sum(pixel == HATCH for pixel in pixels) / len(pixels)

    assert 0.1 < hatched(training.overflow.y, training.overflow.bottom) < 0.6
    assert hatched(training.overflow.bottom, layout_of(spec).plot.bottom) == 0


def test_only_a_transparent_picture_has_no_background(mockup: Chart, tmp_path: Path) -> None:
    path = tmp_path / "chart.png"
    export_chart(mockup(), path, transparent=True)
    assert QImage(str(path)).pixelColor(2, 2).alpha() == 0
    export_chart(mockup(), path)
    assert QImage(str(path)).pixelColor(2, 2) == QColor("#FFFFFF")


def test_patterns_are_a_second_cue(mockup: Chart) -> None:
    spec = mockup()
    gradients = layout_of(spec).bars[2].segments[1][1]

    def colours(style: ChartStyle) -> int:
        image = chart_image(spec, scale=1, style=style)
        xs = range(int(gradients.x) + 2, int(gradients.right) - 2)
        return len({colour_at(image, x, gradients.centre_y) for x in xs})

    assert colours(ChartStyle()) == 1
    assert colours(ChartStyle(patterns=True)) > 1


def test_the_dark_style_keeps_the_colours_of_components(mockup: Chart) -> None:
    spec = mockup()
    image = chart_image(spec, style=ChartStyle(palette=DARK))
    weights = layout_of(spec).bars[0].segments[0][1]
    assert colour_at(image, 2, 2) == DARK.background
    assert colour_at(image, weights.centre_x, weights.centre_y) == COMPONENT_COLOURS["weights"]
