from planner.chart.imprint import SIZE, imprint_labels


def measure(text: str, size: float, _bold: bool) -> float:
    return len(text) * size / 2


def test_lines_stand_at_the_bottom_and_within_the_margins():
    labels = imprint_labels(("Plan: a", "Training: b", "2026-12-01"), 960, 560, measure)
    assert [label.text for label in labels] == ["Plan: a", "Training: b", "2026-12-01"]
    assert labels[-1].rect.bottom == 560 - 22
    assert all(label.size == SIZE and label.rect.x == 22 and label.rect.right == 938 for label in labels)


def test_long_texts_take_more_lines_and_are_whole_where_there_is_room():
    long = " ".join(["word"] * 90)
    labels = imprint_labels((long, "2026-12-01"), 960, 560, measure)
    assert " ".join(label.text for label in labels[:-1]) == long


def test_in_a_small_picture_the_date_is_never_left_out():
    texts = [f"Phase {number}: " + "word " * 60 for number in range(8)]
    labels = imprint_labels((*texts, "2026-12-01"), 400, 260, measure)
    assert labels[-1].text == "2026-12-01"
    assert labels[0].rect.y > 260 * 0.65


def test_a_tiny_picture_has_none():
    assert imprint_labels(("Plan: a",), 200, 60, measure) == ()
    assert imprint_labels((), 960, 560, measure) == ()
