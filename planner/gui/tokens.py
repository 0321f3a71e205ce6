"""Design tokens: every colour of the window, once for the light and once for the dark theme."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tokens:
    """Named colours; a widget asks for a meaning, never for a colour."""

    dark: bool
    window: str
    panel: str
    field: str
    line: str
    field_line: str
    ink: str
    label: str
    muted: str
    hover: str
    pressed: str
    accent: str
    accent_hover: str
    accent_soft: str
    accent_ink: str
    on_accent: str
    row_selected: str
    ok: str
    ok_soft: str
    warn: str
    warn_soft: str
    warn_dot: str
    bad: str
    bad_soft: str
    bad_field: str
    none: str
    none_soft: str
    none_dot: str
    tooltip: str
    on_tooltip: str


LIGHT = Tokens(
    dark=False,
    window="#f6f7f9",
    panel="#ffffff",
    field="#ffffff",
    line="#dfe3e8",
    field_line="#cfd5dd",
    ink="#1c2430",
    label="#3b4554",
    muted="#5f6b7e",
    hover="#f1f4f8",
    pressed="#e6eaf0",
    accent="#2f6fdb",
    accent_hover="#2862c6",
    accent_soft="#e8f0fd",
    accent_ink="#1d4fa8",
    on_accent="#ffffff",
    row_selected="#f3f7fe",
    ok="#177546",
    ok_soft="#e5f5ec",
    warn="#8f5500",
    warn_soft="#fff3d6",
    warn_dot="#e0a100",
    bad="#c0262d",
    bad_soft="#fde8e8",
    bad_field="#fff5f5",
    none="#5f6b7e",
    none_soft="#eef0f3",
    none_dot="#c4cad3",
    tooltip="#1c2430",
    on_tooltip="#ffffff",
)

DARK = Tokens(
    dark=True,
    window="#12161b",
    panel="#181c22",
    field="#1f252d",
    line="#2b323c",
    field_line="#3a4350",
    ink="#e6e9ee",
    label="#c7ced8",
    muted="#9aa4b2",
    hover="#232a33",
    pressed="#2b333e",
    accent="#2f6fdb",
    accent_hover="#3b7ae4",
    accent_soft="#1d2f4f",
    accent_ink="#a9c8ff",
    on_accent="#ffffff",
    row_selected="#1b2534",
    ok="#5fd39a",
    ok_soft="#15342a",
    warn="#f2c14e",
    warn_soft="#3a2f14",
    warn_dot="#e0a100",
    bad="#ff7b80",
    bad_soft="#43202a",
    bad_field="#2d1d22",
    none="#9aa4b2",
    none_soft="#262d37",
    none_dot="#4b5563",
    tooltip="#e6e9ee",
    on_tooltip="#12161b",
)
