"""Modules that are read when something of them is first used: a library imports them for the few models that need them."""

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

RARE = ("sympy", "onnx_ir._symbolic_shapes")
"""Arithmetic with open sizes. onnx_ir imports them whole, which takes longer than the rest of it, and a network whose sizes are fixed has none."""


class _Deferring(MetaPathFinder):
    """Finds what Python finds, and leaves the reading for later."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        found = PathFinder.find_spec(fullname, path, target) if fullname in RARE else None
        if found and found.loader:
            found.loader = LazyLoader(found.loader)
        return found


@contextmanager
def rare_modules_deferred() -> Generator[None]:
    """Modules of RARE that are imported meanwhile are read at their first use; those that are there already stay as they are."""
    finder = _Deferring()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
