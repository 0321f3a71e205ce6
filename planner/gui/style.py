"""The style sheet, written from the design tokens."""

from planner.gui.tokens import Tokens
from planner.resources import resource


def style_sheet(t: Tokens) -> str:
    """Qt style sheet of the whole program. Dynamic properties (`card`, `role`, `primary`) name what a widget is."""
    return "\n".join((_base(t), _buttons(t), _fields(t), _lists(t), _bars(t)))


def _icon(name: str) -> str:
    return resource("icons", f"{name}.svg").as_posix()


def _base(t: Tokens) -> str:
    return f"""
QMainWindow, QDialog, QMessageBox {{ background: {t.window}; }}
QWidget {{ color: {t.ink}; }}
QFrame[card="true"] {{ background: {t.panel}; border: 1px solid {t.line}; border-radius: 8px; }}
QFrame[note="true"] {{ background: {t.warn_soft}; border: 1px solid {t.line}; border-radius: 8px; }}
QWidget[surface="panel"] {{ background: {t.panel}; }}
QWidget[surface="window"] {{ background: {t.window}; }}
QLabel {{ background: transparent; }}
QLabel[role="heading"] {{ color: {t.label}; font-size: 12px; font-weight: 600; letter-spacing: 0.3px; }}
QLabel[role="title"] {{ font-size: 14px; font-weight: 600; }}
QLabel[role="label"] {{ color: {t.label}; }}
QLabel[role="hint"] {{ color: {t.muted}; font-size: 12px; }}
QLabel[role="error"] {{ color: {t.bad}; font-size: 12px; }}
QLabel[role="good"] {{ color: {t.ok}; font-size: 12px; }}
QLabel[role="warning"] {{ color: {t.warn}; font-size: 12px; }}
QLabel[role="notice"] {{ color: {t.bad}; background: {t.bad_soft}; border-radius: 6px; padding: 5px 9px;
  font-size: 12px; }}
QLabel:disabled {{ color: {t.muted}; }}
QToolTip {{ background: {t.tooltip}; color: {t.on_tooltip}; border: 1px solid {t.tooltip}; padding: 4px 6px; }}
QSplitter::handle {{ background: {t.line}; }}
QSplitter::handle:hover {{ background: {t.accent}; }}
QScrollArea, QAbstractScrollArea {{ border: none; background: transparent; }}
QScrollBar:vertical {{ background: transparent; width: 10px; margin: 0; }}
QScrollBar:horizontal {{ background: transparent; height: 10px; margin: 0; }}
QScrollBar::handle {{ background: {t.field_line}; border-radius: 3px; margin: 2px; min-height: 28px;
  min-width: 28px; }}
QScrollBar::handle:hover {{ background: {t.muted}; }}
QScrollBar::add-line, QScrollBar::sub-line {{ width: 0; height: 0; }}
QScrollBar::add-page, QScrollBar::sub-page {{ background: transparent; }}
"""


def _buttons(t: Tokens) -> str:
    return f"""
QPushButton {{ background: {t.field}; border: 1px solid {t.field_line};
  border-radius: 6px; padding: 4px 11px; min-height: 18px; }}
QPushButton:hover:hover {{ background: {t.hover}; }}
QPushButton:pressed:pressed {{ background: {t.pressed}; }}
QPushButton:focus:focus {{ border: 2px solid {t.accent}; padding: 3px 10px; }}
QPushButton:disabled:disabled {{ color: {t.none_dot}; border-color: {t.line}; }}
QPushButton[primary="true"], QPushButton:default {{ background: {t.accent};
  color: {t.on_accent}; border: 1px solid {t.accent}; }}
QPushButton[primary="true"]:hover, QPushButton:default:hover {{
  background: {t.accent_hover}; }}
QPushButton[primary="true"]:focus, QPushButton:default:focus {{
  border: 2px solid {t.accent_ink}; padding: 3px 10px; }}
QPushButton:default:disabled, QPushButton[primary="true"]:disabled {{ background: {t.pressed}; color: {t.muted};
  border-color: {t.line}; }}
QPushButton::menu-indicator {{ image: url({_icon("chevron-down")}); width: 14px; height: 14px;
  subcontrol-origin: padding; subcontrol-position: right center; right: 6px; }}
QToolButton[flat="true"], QPushButton[flat="true"] {{ background: transparent; border: 1px solid transparent;
  border-radius: 6px; padding: 2px 6px; min-height: 0; color: {t.muted}; }}
QToolButton[flat="true"]:hover, QPushButton[flat="true"]:hover {{ background: {t.hover}; color: {t.ink}; }}
QToolButton[flat="true"]:focus, QPushButton[flat="true"]:focus {{ border: 1px solid {t.accent}; padding: 2px 6px; }}
QPushButton[disclosure="true"] {{ text-align: left; color: {t.accent_ink}; padding: 3px 2px; }}
QPushButton[disclosure="true"]:focus {{ padding: 3px 2px; }}
QPushButton[picker="true"] {{ text-align: left; padding: 4px 8px; }}
QPushButton[picker="true"]:focus {{ padding: 3px 7px; }}
QPushButton[phase="true"] {{ background: transparent; border: 1px solid transparent; border-radius: 5px;
  padding: 1px 2px; color: {t.label}; }}
QPushButton[phase="true"]:hover {{ background: {t.hover}; }}
QPushButton[phase="true"]:checked {{ background: transparent; color: {t.accent_ink}; font-weight: 600; }}
QPushButton[phase="true"]:focus {{ border: 1px solid {t.accent}; padding: 1px 2px; }}
QWidget[chip="true"] {{ background: transparent; border-radius: 6px; }}
QWidget[chip="true"][selected="true"] {{ background: {t.accent_soft}; }}
QCheckBox, QRadioButton {{ spacing: 7px; background: transparent; min-height: 20px; }}
QCheckBox::indicator, QRadioButton::indicator {{ width: 14px; height: 14px; border: 1px solid {t.muted};
  background: {t.field}; }}
QCheckBox::indicator {{ border-radius: 3px; }}
QRadioButton::indicator {{ border-radius: 8px; }}
QCheckBox::indicator:hover, QRadioButton::indicator:hover {{ border-color: {t.accent}; }}
QCheckBox::indicator:checked {{ background: {t.accent}; border-color: {t.accent}; image: url({_icon("check")}); }}
QRadioButton::indicator:checked {{ background: {t.accent}; border-color: {t.accent}; image: url({_icon("dot")}); }}
QCheckBox::indicator:focus, QRadioButton::indicator:focus {{ border: 2px solid {t.accent}; width: 12px;
  height: 12px; }}
QCheckBox::indicator:checked:focus, QRadioButton::indicator:checked:focus {{ border: 2px solid {t.accent_ink};
  width: 12px; height: 12px; }}
QCheckBox::indicator:disabled, QRadioButton::indicator:disabled {{ border-color: {t.line}; background: {t.hover}; }}
"""


def _fields(t: Tokens) -> str:
    return f"""
QLineEdit, QAbstractSpinBox, QComboBox, QPlainTextEdit {{ background: {t.field}; border: 1px solid {t.field_line};
  border-radius: 6px; padding: 2px 7px; min-height: 20px; selection-background-color: {t.accent};
  selection-color: {t.on_accent}; }}
QLineEdit:hover, QAbstractSpinBox:hover, QComboBox:hover {{ border-color: {t.muted}; }}
QLineEdit:focus, QAbstractSpinBox:focus, QComboBox:focus, QPlainTextEdit:focus {{ border: 2px solid {t.accent};
  padding: 1px 6px; }}
QLineEdit:disabled, QAbstractSpinBox:disabled, QComboBox:disabled {{ color: {t.muted}; background: {t.hover}; }}
*[invalid="true"] {{ border: 1px solid {t.bad}; background: {t.bad_field}; }}
*[invalid="true"]:focus {{ border: 2px solid {t.bad}; }}
QAbstractSpinBox {{ padding-right: 0; }}
QAbstractSpinBox:focus {{ padding-right: 0; }}
QAbstractSpinBox QLineEdit, QComboBox QLineEdit {{ border: none; padding: 0; min-height: 0; background: transparent; }}
QAbstractSpinBox::up-button, QAbstractSpinBox::down-button {{ subcontrol-origin: border; width: 16px;
  border: none; background: transparent; }}
QAbstractSpinBox::up-button {{ subcontrol-position: top right; margin: 3px 3px 0 0; }}
QAbstractSpinBox::down-button {{ subcontrol-position: bottom right; margin: 0 3px 3px 0; }}
QAbstractSpinBox::up-arrow {{ image: url({_icon("chevron-up")}); width: 10px; height: 10px; }}
QAbstractSpinBox::down-arrow {{ image: url({_icon("chevron-down")}); width: 10px; height: 10px; }}
QAbstractSpinBox::up-button:hover, QAbstractSpinBox::down-button:hover {{ background: {t.pressed};
  border-radius: 3px; }}
QComboBox::drop-down {{ subcontrol-origin: border; subcontrol-position: center right; width: 22px; border: none; }}
QComboBox::down-arrow {{ image: url({_icon("chevron-down")}); width: 14px; height: 14px; }}
"""


def _lists(t: Tokens) -> str:
    return f"""
QComboBox QAbstractItemView, QListView, QTableView, QTreeView {{ background: {t.field}; border: 1px solid {t.line};
  outline: none; selection-background-color: {t.accent_soft}; selection-color: {t.accent_ink}; }}
QComboBox QAbstractItemView::item, QListView::item {{ padding: 4px 8px; min-height: 20px; }}
QListView::item:hover, QTableView::item:hover {{ background: {t.hover}; }}
QListView::item:selected, QTableView::item:selected {{ background: {t.accent_soft}; color: {t.accent_ink}; }}
QTableView::item {{ padding: 0 4px; }}
QListView:focus, QTableView:focus {{ border: 1px solid {t.accent}; }}
QTableView {{ gridline-color: transparent; alternate-background-color: {t.field}; }}
QTableView[plain="true"] {{ background: {t.panel}; border: 1px solid {t.line}; border-radius: 8px; }}
QTableView[plain="true"]:focus {{ border: 1px solid {t.accent}; }}
QHeaderView {{ background: transparent; border: none; }}
QHeaderView::section {{ background: transparent; color: {t.label}; font-size: 11px; font-weight: 600; border: none;
  border-bottom: 1px solid {t.line}; padding: 5px 4px; }}
QTableCornerButton::section {{ background: transparent; border: none; }}
QProgressBar {{ background: {t.pressed}; border: none; border-radius: 3px; max-height: 6px; min-height: 6px; }}
QProgressBar::chunk {{ background: {t.accent}; border-radius: 3px; }}
QFrame[popup="true"] {{ background: {t.panel}; border: 1px solid {t.field_line}; border-radius: 8px; }}
QFrame[popup="true"] QListView {{ border: none; background: transparent; }}
QTextBrowser {{ background: transparent; border: none; }}
QTextBrowser:focus {{ border: 1px solid {t.accent}; border-radius: 6px; }}
"""


def _bars(t: Tokens) -> str:
    return f"""
QTabBar {{ background: transparent; }}
QTabBar::tab {{ background: transparent; color: {t.muted}; border: none;
  border-bottom: 2px solid transparent; padding: 6px 2px 7px 2px; margin-right: 18px; }}
QTabBar::tab:hover {{ color: {t.ink}; }}
QTabBar::tab:selected {{ color: {t.ink}; font-weight: 600; border-bottom: 2px solid {t.accent}; }}
QTabBar:focus::tab:selected {{ color: {t.accent_ink}; }}
QMenuBar {{ background: {t.panel}; border-bottom: 1px solid {t.line}; padding: 1px 6px; }}
QMenuBar::item {{ background: transparent; padding: 4px 9px; border-radius: 5px; }}
QMenuBar::item:selected {{ background: {t.hover}; }}
QMenu {{ background: {t.panel}; border: 1px solid {t.field_line}; padding: 4px; }}
QMenu::item {{ padding: 5px 26px 5px 22px; border-radius: 4px; }}
QMenu::item:selected {{ background: {t.accent_soft}; color: {t.accent_ink}; }}
QMenu::item:disabled {{ color: {t.muted}; }}
QMenu::separator {{ height: 1px; background: {t.line}; margin: 4px 6px; }}
QToolBar {{ background: {t.panel}; border: none; border-bottom: 1px solid {t.line}; padding: 5px 12px; spacing: 6px; }}
QStatusBar {{ background: {t.panel}; border-top: 1px solid {t.line}; color: {t.muted}; font-size: 12px; }}
QStatusBar::item {{ border: none; }}
QStatusBar QLabel {{ color: {t.muted}; font-size: 12px; padding: 2px 8px; }}
"""
