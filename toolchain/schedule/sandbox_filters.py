"""The operators, filters, tests and functions of templates: Jinja's own that are pure, each charged for its arguments and its result, which
is checked before it is made.

Whatever a template makes is charged to a budget: turns of loops, calls, characters of texts, entries of lists, digits of numbers. The budget counts
units, not seconds: a template that is refused is refused on every computer."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass
from functools import wraps
from numbers import Integral
from typing import Any, TypeGuard, cast

from jinja2.exceptions import SecurityError
from jinja2.filters import FILTERS as _FILTERS
from jinja2.runtime import Undefined
from jinja2.sandbox import SandboxedFormatter
from jinja2.tests import TESTS as _TESTS
from jinja2.utils import Namespace

WORK = 10_000_000
"""Units: some seconds, some hundred megabytes."""
DEPTH = 40
"""Calls inside each other."""

Values = tuple[object, ...] | dict[str, object]
BITS = 4096
"""Limit of a number that a template makes."""
WIDTH = 256
"""Limit of a field's width in a format, and of an indentation."""
_FIELD = re.compile(r"%(?:\([^)]*\))?[-+ #0]*(\*|\d+)?(?:\.(\*|\d+))?")

JINJA = cast(Mapping[str, Callable[..., Any]], _FILTERS)
PURE = (
    *("abs", "count", "d", "default", "dictsort", "first", "float", "int", "items", "last", "length", "list", "lower", "map", "max", "min"),
    *("reject", "rejectattr", "reverse", "select", "selectattr", "sort", "trim", "unique", "upper"),
)
"""Filters as they are: their results are no larger than their arguments."""

Function = Callable[..., Any]


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


def charged(function: Function) -> Function:
    """The function, paid for; a result that it would make bit by bit it makes at once."""

    @wraps(function)  # keeps Jinja's mark of what is passed first
    def run(*values: object, **named: object) -> object:
        spend(sum(map(size_of, (*values, *named.values()))))
        found = function(*values, **named)
        if isinstance(found, Iterator):
            found = list(cast(Iterator[object], found))
        spend(size_of(found))
        return found

    return run


def joined(values: Iterable[object], between: object = "", attribute: object = None) -> str:
    """The texts of values, one after the other."""
    if attribute is not None:
        raise TypeError("'join' takes no attribute here; use 'map' before it")
    texts, mark = [printed(value) for value in values], printed(between)
    spend(sum(map(len, texts)) + len(mark) * len(texts))
    return mark.join(texts)


def replaced(text: object, old: object, new: object, count: int = -1) -> str:
    """The text with `new` for `old`, at most `count` times."""
    whole, old, new = map(printed, (text, old, new))
    spend(len(whole) + whole.count(old) * len(new))
    return whole.replace(old, new, count)


def indented(text: object, width: int = 4, first: bool = False) -> str:
    """Every line but the first `width` columns further right; the first too where `first` says so."""
    if not 0 <= width <= WIDTH:
        raise SecurityError(f"an indentation of {width} columns; {WIDTH} at most")
    lines = printed(text).split("\n")
    spend(width * len(lines))
    return "\n".join(" " * width + line if line and (first or number) else line for number, line in enumerate(lines))


def total(values: Iterable[Any], start: Any = 0) -> float:
    """The sum of numbers."""
    values = list(values)
    if not all(isinstance(value, int | float) for value in (start, *values)):
        raise TypeError("'sum' adds numbers")
    return sum(values, start)


def rounded(value: object, digits: int = 0, method: str = "common") -> object:
    """The number with so many digits after the point."""
    if not 0 <= digits <= 30:
        raise SecurityError(f"{digits} digits after the point; 30 at most")
    return JINJA["round"](value, digits, method)


def formatted(text: object, *values: object, **named: object) -> str:
    """As Python's `text % values`."""
    if values and named:
        raise TypeError("'format' takes values by place or by name")
    return format_text(printed(text), named or values)


def weighed(value: object, weight: int = 1) -> object:
    """The value itself; a loop over it, or a look through it, costs `weight` for each entry."""
    if is_sized(value):
        spend((1 + len(value)) * weight)
    elif weight > 1 and not isinstance(value, Undefined):
        raise TypeError(f"there is no loop over a {type(value).__name__}")
    return value


def paid(units: int) -> str:
    """No text, paid for."""
    spend(units)
    return ""


WEIGH, PAY = "(weigh)", "(pay)"
"""Names that no template can write."""
FILTERS: Mapping[str, Function] = {
    **{name: charged(JINJA[name]) for name in PURE},
    "format": formatted,
    "indent": charged(indented),
    "join": charged(joined),
    "replace": charged(replaced),
    "round": rounded,
    "string": printed,
    "sum": charged(total),
    WEIGH: weighed,
    PAY: paid,
}
TESTS: Mapping[str, Function] = {name: charged(test) for name, test in cast(Mapping[str, Function], _TESTS).items()}
GLOBALS: Mapping[str, Any] = {"range": charged(range), "dict": charged(dict), "namespace": Namespace}
