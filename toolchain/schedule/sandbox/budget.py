"""The work that one rendering may do, counted in units and not in seconds: a template that is refused is refused on every computer.

Whatever a template makes is charged: turns of loops, calls, characters of texts, entries of lists, digits of numbers.
"""

from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import TypeGuard

from jinja2.exceptions import SecurityError

WORK = 10_000_000
"""Units: some seconds, some hundred megabytes."""
DEPTH = 40
"""Calls inside each other."""


@dataclass
class Budget:
    """The work that is left, and how many calls inside each other are under way."""

    left: int = WORK
    depth: int = 0


_CURRENT: ContextVar[Budget] = ContextVar("budget")


def begin() -> Token[Budget]:
    """A new rendering's work; `end` takes the answer."""
    return _CURRENT.set(Budget())


def end(before: Token[Budget]) -> None:
    """The rendering is over."""
    _CURRENT.reset(before)


def spend(units: int) -> None:
    """Raises SecurityError where no work is left."""
    current = _CURRENT.get()
    current.left -= units
    if current.left < 0:
        raise SecurityError(f"it needs more than {WORK:,} units of work: turns of loops, calls, characters and entries that it makes")


def deeper(calls: int) -> None:
    """One call more that is under way, or one less (-1). Raises SecurityError for more than DEPTH inside each other."""
    current = _CURRENT.get()
    current.depth += calls
    if current.depth > DEPTH:
        raise SecurityError(f"it calls macros more than {DEPTH} deep")


def size_of(value: object) -> int:
    """Units that a value is worth."""
    if isinstance(value, int):
        return 1 + (value.bit_length() >> 6)
    return 1 + len(value) if is_sized(value) else 1


def is_sized(value: object) -> TypeGuard[str | list[object] | tuple[object, ...] | dict[object, object] | range]:
    """Whether it is one of the kinds that hold several; templates have no others."""
    return isinstance(value, str | list | tuple | dict | range)
