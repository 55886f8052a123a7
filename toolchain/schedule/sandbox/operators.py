"""Operators and texts of values: checked before they are made, so that nothing large is made first."""

import re
from collections.abc import Sequence
from numbers import Integral
from typing import Any, cast

from jinja2.exceptions import SecurityError
from jinja2.runtime import Undefined
from jinja2.sandbox import SandboxedFormatter

from toolchain.schedule.sandbox.budget import is_sized, size_of, spend

Values = tuple[object, ...] | dict[str, object]
BITS = 4096
"""Limit of a number that a template makes."""
WIDTH = 256
"""Limit of a field's width in a format, and of an indentation."""
_FIELD = re.compile(r"%(?:\([^)]*\))?[-+ #0]*(\*|\d+)?(?:\.(\*|\d+))?")


def printed(value: object) -> str:
    """The text of a text or a number. Raises TypeError for a value that has none of its own: a list, a method, a macro."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float | Integral | Undefined):
        return str(value)  # which raises for what is undefined
    raise TypeError(f"only texts and numbers can be printed, not a {type(value).__name__}")


def apply(operator: str, left: Any, right: Any) -> Any:
    """The value of a binary operator that may make something large: + * ** %."""
    match operator:
        case "%" if isinstance(left, str):
            return format_text(left, cast(Values, right) if isinstance(right, tuple | dict) else (right,))
        case "%":
            return left % right
        case "**":
            return _power(left, right)
        case "*":
            return _product(left, right)
        case _:
            spend(size_of(left) + size_of(right))
            return left + right


def _power(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() * right > BITS:
        raise SecurityError(f"a number of more than {BITS} bits")
    return left**right


def _product(left: Any, right: Any) -> Any:
    numbers = isinstance(left, int) and isinstance(right, int)
    if numbers and left.bit_length() + right.bit_length() > BITS:
        raise SecurityError(f"a number of more than {BITS} bits")
    for values, count in ((left, right), (right, left)):
        if is_sized(values) and isinstance(count, int):
            spend(len(values) * max(count, 0))
    return left * right


def format_text(text: str, values: Values) -> str:
    """As `text % values`. Raises SecurityError for a field that is wide or whose width is a value."""
    fields = [size for field in _FIELD.findall(text) for size in field]
    checked_width(*fields)
    longest = max(map(len, map(printed, values.values() if isinstance(values, dict) else values)), default=0)
    spend(len(text) + (longest + 2 * WIDTH) * len(fields) // 2)
    return text % values


def checked_width(*sizes: str) -> None:
    """Raises SecurityError for a number of columns that is large or not written out."""
    for size in filter(None, sizes):
        if not size.isdigit() or len(size) > len(str(WIDTH)) or int(size) > WIDTH:
            raise SecurityError(f"a field of '{size[:20]}' columns; {WIDTH} at most, written out")


class Formatter(SandboxedFormatter):
    """`str.format`, each field charged before the next."""

    def convert_field(self, value: object, conversion: str | None) -> object:
        printed(value)
        return super().convert_field(value, conversion)

    def format_field(self, value: object, format_spec: str) -> str:
        checked_width(*re.findall(r"\d+", format_spec))
        printed(value)
        found: str = super().format_field(value, format_spec)
        spend(size_of(found))
        return found

    def check_unused_args(self, used_args: object, args: Sequence[object], kwargs: object) -> None: ...
