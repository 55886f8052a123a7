"""Machines with memories as small as they may be: tests fill, copy and compare them whole."""

from collections.abc import Mapping
from functools import cache

from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine

SMALL = {"LOG_DRAM": "20", "LOG_DDR": "20", "LOG_LLB": "18"}


def small_machine(name: str, overrides: Mapping[str, str] | None = None) -> Machine:
    """The machine with whichever of these parameters it has; the same object each time."""
    return _loaded(name, tuple(sorted((overrides or {}).items())))


@cache
def _loaded(name: str, overrides: tuple[tuple[str, str], ...]) -> Machine:
    known = load_machine(name).params
    return load_machine(name, overrides={key: value for key, value in SMALL.items() if key in known} | dict(overrides))
