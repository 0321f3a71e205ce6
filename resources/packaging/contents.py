"""What goes into the frozen program and what stays out: the rules of the PyInstaller specification, as data.

Each exclusion was tried: the program starts, draws, saves and writes every report without it.
"""

import re

EXCLUDED_MODULES = (
    # Parts of Qt that the window does not use. QtOpenGL, QtOpenGLWidgets, QtTest and QtSvg are needed: pyqtgraph
    # imports them, the first two by name at run time.
    "PySide6.QtDesigner",
    "PySide6.QtHelp",
    "PySide6.QtNetwork",
    "PySide6.QtPrintSupport",
    "PySide6.QtQml",
    "PySide6.QtQuick",
    "PySide6.QtQuickControls2",
    "PySide6.QtQuickTest",
    "PySide6.QtQuickWidgets",
    "PySide6.QtSql",
    "PySide6.QtUiTools",
    # Of the standard library nothing else may go: pyqtgraph needs even pydoc.
    "idlelib",
    "tkinter",
    "test",
    # Other programs' tools that libraries offer to work with when they find them.
    "IPython",
    "matplotlib",
    "mypy",
    "numba",
    "pandas",
    "pytest",
    "scipy",
    "setuptools",
)
TOOLS = ("altgraph", "packaging", "pip", "pyinstaller", "pyinstaller-hooks-contrib", "setuptools", "wheel")
"""What is only there to build with, and is not shipped."""
HIDDEN_MODULES = ("PySide6.QtOpenGL", "PySide6.QtOpenGLWidgets", "PySide6.QtSvg", "PySide6.QtTest", "pydoc", "pynvml")
"""Imported by name at run time, where a freezer cannot see it."""

_DROPPED = re.compile(
    r"""
    /plugins/ (?: platformthemes | egldeviceintegrations | networkinformation | tls | sqldrivers | virtualkeyboard
                | qmltooling | generic | designer | printsupport | webview | position | sensors ) /
    | /plugins/platforms/ (?! (lib)?q(xcb|wayland|wayland-egl|wayland-generic|windows|cocoa|offscreen|minimal)\. )
    | /plugins/imageformats/ (?! (lib)?q(svg|ico|gif|jpeg|png)\. )
    | /Qt/(qml|translations)/
    | (^|/)lib(gtk-3|gdk-3|gdk_pixbuf|pango\w*|cairo|cairo-gobject|atk-1|atk-bridge|atspi|epoxy)[-.0-9]*\.so
    | (^|/)lib(pixman-1|thai|datrie)\.so
    | (^|/)lib(Qt6Quick|Qt6Qml|Qt6Network|Qt6Pdf|Qt6Sql|Qt6VirtualKeyboard|Qt6Designer|Qt6Help|Qt6EglF[sS])\w*\.so
    | (^|/)PIL/_(avif|webp|imagingcms|imagingft|imagingtk)\.
    | (^|/)pillow\.libs/lib(avif|webp\w*|sharpyuv|lcms2|freetype|harfbuzz|brotli\w*)-
    | (^|/)PIL/(?!Bmp|Gif|Jpeg|Png|Ppm|Tiff)\w+ImagePlugin\.
    | (^|/)lxml/(html|isoschematron|includes)/ | (^|/)numpy/f2py/
    | (^|/)pygments/lexers/(?!__init__|_mapping|special|text)\w+\.
    | /_resources/(packaging|screenshots|docs)/
    | (^|/)numpy/(_core/)?tests/ | (^|/)pyqtgraph/examples/ | (^|/)PySide6/(scripts|typesystems|glue|include)/
    """,
    re.VERBOSE,
)
_OF_THE_SYSTEM = re.compile(r"(^|/)lib(stdc\+\+|gcc_s|GL|EGL|GLX|OpenGL|GLdispatch|drm|gbm)\.so[.0-9]*$")
"""Must come from the machine it runs on: a graphics driver that is newer than the build needs its own libstdc++."""


def is_kept(path: str) -> bool:
    """Whether a collected file, by its place in the bundle with forward slashes, belongs there."""
    place = "/" + path.replace("\\", "/")
    return not _DROPPED.search(place) and not _OF_THE_SYSTEM.search(place)
