"""The look of texts for a reader: tables, ruled on a terminal, plain in a pipe or a file; and one set of rules for all pages of HTML."""

import io
from collections.abc import Mapping, Sequence

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from toolchain.spec.files import PACKAGE
from toolchain.timing.usage import table


def html_environment() -> Environment:
    """The toolchain's own templates; values are escaped, and an unknown name is an error."""
    made = Environment(
        loader=FileSystemLoader(PACKAGE / "templates"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=True
    )
    made.keep_trailing_newline = True
    return made


def table_text(head: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (), terminal: bool = False, width: int = 120) -> str:
    """Ends in one line feed. left: columns that are aligned to the left. width: of the terminal, in characters; a pipe has none."""
    return _ruled(head, rows, left, width) if terminal else "\n".join(table(head, rows, left)) + "\n"


def _ruled(head: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int], width: int) -> str:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, header_style="bold", pad_edge=False)
    for number, name in enumerate(head):
        made.add_column(name, justify="left" if number in left else "right", overflow="fold")
    for row in rows:
        made.add_row(*(Text(cell) for cell in row))
    out = io.StringIO()
    Console(file=out, force_terminal=True, width=width, highlight=False).print(made)
    return out.getvalue()


def scaled(value: float, unit: str = "") -> str:
    """Three digits and a prefix: `3.86 G`, `512 k`; numbers below a thousand stay as they are."""
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {prefix}{unit}" if abs(value) < 999.5 * factor else f"{value / factor:.0f} {prefix}{unit}"
    return f"{value:.0f} {unit}".rstrip()


def share_text(share: float | None, digits: int = 0) -> str:
    """A share in per cent; shares above 100 per cent of the declared figure are not shown as numbers."""
    return "-" if share is None else ">100" if round(share, digits) > 100 else f"{share:.{digits}f}"


def counted(number: int, what: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{number} {what}" + ("" if number == 1 else "s")


def tally(counts: Mapping[str, int]) -> str:
    """`58 Sigmoid, 57 Mul`: the most frequent first, those as frequent in the order of their names."""
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])))
