"""The keyboard reaches everything, and everything it reaches has a name."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QMenu, QWidget

from planner.gui.views.bar_plot import BarPlot


def tab_chain(window):
    """Every widget that Tab stops at, in order."""
    stops, widget = [], window.nextInFocusChain()
    while widget is not window:
        if (
            widget.focusProxy() is None
            and widget.focusPolicy() & Qt.FocusPolicy.TabFocus
            and widget.isVisibleTo(window)
            and widget.isEnabled()
        ):
            stops.append(widget)
        widget = widget.nextInFocusChain()
    return stops


def spoken(widget):
    text = widget.text() if isinstance(widget, QAbstractButton) else ""
    return widget.accessibleName() or text


def test_every_stop_of_the_tab_key_has_a_name(window):
    for widget in tab_chain(window):
        assert spoken(widget), widget


def test_tab_reaches_every_part_of_the_window(window):
    names = [spoken(widget) for widget in tab_chain(window)]
    for name in (
        "New",
        "Copy chart",
        "Save chart…",
        "Model",
        "Import",
        "Plan training",
        "Show serving",
        "Training: Optimizer",
        "Training: Parallelism",
        "Add GPUs",
        "Judge by NVIDIA L40S 48 GB",
        "Number of NVIDIA L40S 48 GB",
        "Lifecycle chart",
        "Figures and verdicts",
        "Explanation of the figure",
    ):
        assert name in names, name


def test_tab_goes_from_left_to_right(window):
    stops = tab_chain(window)
    places = [next(i for i, stop in enumerate(stops) if spoken(stop) == name) for name in (
        "New", "Model", "Plan training", "Training: Optimizer", "Add GPUs", "Lifecycle chart", "Figures and verdicts"
    )]  # fmt: skip
    assert places == sorted(places)


def test_the_tab_key_moves_on(window, qtbot):
    first = window.model_panel.picker
    first.setFocus()
    qtbot.keyClick(first, Qt.Key.Key_Tab)
    assert window.focusWidget() is not first
    assert isinstance(window.focusWidget(), QWidget)


def test_every_command_with_a_shortcut_has_its_own(window):
    keys = [action.shortcut().toString() for action in window.actions_.by_name.values()]
    keys = [key for key in keys if key]
    assert len(keys) == len(set(keys))
    assert {"Ctrl+N", "Ctrl+O", "Ctrl+S", "Ctrl+Z"} <= set(keys)


def test_menus_have_distinct_mnemonics(window):
    bar = window.menuBar()
    for menu in bar.findChildren(QMenu, options=Qt.FindChildOption.FindDirectChildrenOnly):
        texts = [action.text() for action in menu.actions() if "&" in action.text()]
        letters = [text[text.index("&") + 1].lower() for text in texts]
        assert len(letters) == len(set(letters)), texts


def test_no_text_is_wider_than_its_button(window):
    for button in window.findChildren(QAbstractButton):
        if button.isVisible() and button.text() and not isinstance(button, BarPlot):
            assert button.width() >= button.minimumSizeHint().width(), button.text()
