"""Real files and processes: each probe is a program of its own, so that nothing before it is measured with it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROBES = Path(__file__).parent / "probes"
NEEDS = {
    "text": ("datasets", "tokenizers"),
    "objects": ("tokenizers",),
    "loader": ("datasets", "torch"),
    "checkpoint": ("torch", "safetensors"),
    "loading": ("torch", "safetensors"),
}


@pytest.fixture
def probe(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Run a probe in a fresh interpreter and an empty folder; skips where a library that it measures is absent."""

    def run(name: str, *arguments: int) -> dict[str, Any]:
        if not sys.platform.startswith("linux"):
            pytest.skip("memory is read from /proc")
        for library in NEEDS[name]:
            pytest.importorskip(library, reason=f"{library} comes with the extra 'measured'")
        script = str(PROBES / f"{name}.py")
        offline = {"HF_HOME": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
        done = subprocess.run(
            [sys.executable, "-W", "ignore", script, *map(str, arguments)],
            env=os.environ | offline,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        measured: dict[str, Any] = json.loads(done.stdout)
        return measured

    return run
