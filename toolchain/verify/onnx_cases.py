"""The ONNX project's own cases of nodes, as the installed onnx package makes them."""

import functools
import importlib
import pkgutil
import sys
import warnings
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from onnx.backend.test.case import node


def case_modules() -> list[str]:
    """Modules that hold the cases, most of them of one operator; those of other domains are in packages below."""
    prefix = f"{node.__name__}."
    return sorted(name.removeprefix(prefix) for _, name, inner in pkgutil.walk_packages(node.__path__, prefix) if not inner)


@functools.cache
def all_cases() -> Sequence[Any]:
    """The cases of all modules, which make them when they are imported: ten seconds, as onnx computes every result."""
    with _quiet():
        return tuple(_usable(node.collect_testcases("")))


@functools.cache
def cases_in(module: str) -> Sequence[Any]:
    """The cases of one module; where it was imported before, those whose names begin with its own."""
    made: list[Any] = node._NodeTestCases  # type: ignore[reportPrivateUsage]
    name, before = f"{node.__name__}.{module}", len(made)
    if name in sys.modules:
        return tuple(case for case in _usable(made) if case.name.startswith(f"test_{module.rpartition('.')[2]}"))
    with _quiet():
        importlib.import_module(name)
    return tuple(_usable(made[before:]))


def _usable(cases: Iterable[Any]) -> Iterator[Any]:
    """Cases that hold their model and their data."""
    return (case for case in cases if case.model and case.data_sets)


@contextmanager
def _quiet() -> Generator[None]:
    """Cases with infinite results warn when they are made."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield
