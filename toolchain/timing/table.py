"""A table as aligned plain text."""

from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = ()) -> list[str]:
    """Lines of text. Columns are aligned to the right, those numbered in `left` to the left."""
    widths = [max(len(line[k]) for line in (head, *rows)) for k in range(len(head))]
    return ["  ".join(cell.ljust(w) if k in left else cell.rjust(w) for k, (cell, w) in enumerate(zip(line, widths, strict=True))).rstrip()
            for line in (head, *rows)]  # fmt: skip
