"""Modules that are read when something of them is first used: a library imports them for the few models that need them."""

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

RARE = ("sympy", "onnx_ir._symbolic_shapes", "onnx.compose", "google.protobuf.json_format", "google.protobuf.text_format")
"""Arithmetic with open sizes: onnx_ir imports it whole, which takes longer than the rest of it, and a network whose sizes are fixed has none. Other
forms of a model's file, and models put together: onnx imports them, and no stage of a build needs any."""


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
