"""Instruction formats drawn as boxes of text, most significant bit on the left."""

from collections.abc import Sequence

from toolchain.spec.model import Field


def bit_diagram(fields: Sequence[Field], total_bits: int, word_bits: int) -> str:
    """One box row per word of `word_bits` bits, with bit numbers inside the word above each cell; holes show as `-`."""
    rows = [_word(fields, word, min(word_bits, total_bits - word * word_bits), word_bits) for word in range(-(-total_bits // word_bits))]
    return "\n".join(rows)


def _word(fields: Sequence[Field], word: int, bits: int, word_bits: int) -> str:
    cells = _cells(fields, word * word_bits, bits)
    widths = [max(len(name) + 2, len(_numbers(high, low, 0)) + 2) for name, high, low in cells]
    numbers = " " + " ".join(_numbers(high, low, w) for (_, high, low), w in zip(cells, widths, strict=True))
    rule = "+" + "+".join("-" * w for w in widths) + "+"
    names = "|" + "|".join(name.center(w) for (name, _, _), w in zip(cells, widths, strict=True)) + "|"
    return "\n".join([f"word {word}", numbers.rstrip(), rule, names, rule])


def _numbers(high: int, low: int, width: int) -> str:
    if high == low:
        return str(high).center(width)
    return f"{high}{' ' * max(1, width - len(str(high)) - len(str(low)))}{low}"


def _cells(fields: Sequence[Field], start: int, bits: int) -> list[tuple[str, int, int]]:
    """(name, high bit, low bit) inside the word, from the most significant down, holes included."""
    inside = sorted((f for f in fields if start <= f.lsb < start + bits), key=lambda f: -f.lsb)
    cells: list[tuple[str, int, int]] = []
    top = bits - 1
    for field in inside:
        high, low = min(field.lsb + field.bits - start, bits) - 1, field.lsb - start
        if high < top:
            cells.append(("-", top, high + 1))
        cells.append((field.name, high, low))
        top = low - 1
    if top >= 0:
        cells.append(("-", top, 0))
    return cells
