"""The package's top: quick to import, and all that a Python program needs."""

import subprocess
import sys
from pathlib import Path

import pytest

import toolchain

ROOT = Path(__file__).resolve().parents[1]


def test_importing_it_imports_little_else() -> None:
    """Every command begins with it."""
    code = "import sys; before = set(sys.modules); import toolchain; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {name.partition(".")[0] for name in done.stdout.split()} <= {"toolchain", *sys.stdlib_module_names}
    assert [name for name in done.stdout.split() if name.startswith("toolchain")] == ["toolchain"]


def test_every_name_is_there() -> None:
    assert all(hasattr(toolchain, name) for name in toolchain.__all__)
    assert set(toolchain.__all__) <= set(dir(toolchain))
    assert issubclass(toolchain.UserError, Exception)
    with pytest.raises(AttributeError):
        _ = toolchain.nothing  # type: ignore[attr-defined]
