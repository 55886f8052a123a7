"""The ONNX project's own cases of nodes, as the installed onnx package makes them."""

import functools
import importlib
import pkgutil
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx.backend.test.case import node


def case_modules() -> list[str]:
    """Modules that hold the cases, most of them of one operator; those of other domains are in packages below."""
    prefix = f"{node.__name__}."
    return sorted(name.removeprefix(prefix) for _, name, inner in pkgutil.walk_packages(node.__path__, prefix) if not inner)


@functools.cache
def cases_in(module: str) -> Sequence[Any]:
    """The cases of a module, which makes them when it is run: all modules take ten seconds, as onnx computes every result."""
    made: list[Any] = node._NodeTestCases  # type: ignore[reportPrivateUsage]
    before = len(made)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        name = f"{node.__name__}.{module}"
        if name in sys.modules:  # somebody else has made them, among all the others
            importlib.reload(sys.modules[name])
        else:
            importlib.import_module(name)
    return tuple(made[before:])
