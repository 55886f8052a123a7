"""Machines that requantise by multiplication: `ratio`, which lives only in the tests, and others made of it by changing its text."""

import shutil
from collections.abc import Sequence
from pathlib import Path

MACHINES = Path(__file__).resolve().parent / "data" / "machines"
RATIO = MACHINES / "ratio.yaml"
Change = tuple[str, str, str]
"""A file, the text in it, and what stands there instead. The file is `kernels.yaml`, a template's name, or empty for the machine's own."""

FLOAT32 = """\
          n[o]: i64 = max(clog2(abs(acc[place + r * length + i][o]) + 1) - 24, 0)
          p[o]: i64 = round_half_even(acc[place + r * length + i][o], n[o]) * (vectors[vector + r][o] & 0x7FFFFF | 0x800000)
          k[o]: i64 = max(clog2(abs(p[o]) + 1) - 24, 0)
          e[o]: i64 = 150 - (vectors[vector + r][o] >> 23 & 255) - n[o] - k[o]
          t[o]: i64 = round_half_even(round_half_even(p[o], k[o]), max(min(e[o], 63), 0)) + zero
"""
"""A sum as float32 times a positive float32, in whole numbers: 24 bits of the sum, of the product, then what is left of the exponents."""


def changed(folder: Path, changes: Sequence[Change], name: str = "ratio") -> Path:
    """The machine's file in a folder, with every change in place. name: of the machine."""
    folder.mkdir(exist_ok=True)
    path, own = folder / f"{name}.yaml", folder / name
    shutil.copy(RATIO, path)
    shutil.copytree(MACHINES / "ratio", own)
    for file, old, new in (("", "name: ratio", f"name: {name}"), *changes):
        target = own / file if file else path
        text = target.read_text()
        assert old in text, old
        target.write_text(text.replace(old, new))
    return path


def factor(folder: Path) -> Path:
    """Scales of float32 in place of multipliers and shifts, and sums of 32 bits."""
    text = RATIO.read_text()
    store = text[text.index("          p[o]: i64") : text.index("          dram.pixel[address + r")]
    scales = text[text.index("  scale: multiplier") : text.index("layouts:\n")]
    changes = [
        ("", store, FLOAT32),
        ("", scales, "  scale: float32\n  per_channel: true\n  rounding: half_even\n  shift: [0, 62]\n"),
        ("", "wrap(s[o], i24)", "s[o]"),
        ("", "accumulator_bits: 24", "accumulator_bits: 32"),
        ("", "[-(1 << 22), 1 << 22]", "[-(1 << 30), 1 << 30]"),
        ("kernels.yaml", "multipliers[c] if r == 1 else shifts[c] if r == 2 else", "scales[c] if r == 1 else"),
        ("kernels.yaml", "multiplier if r == 1 else shift if r == 2", "scale_bits if r == 1 else 0 if r == 2"),
        ("kernels.yaml", "multiplier if r == 1 else shift", "scale_bits if r == 1 else 0"),
        ("kernels.yaml", '"1 if r == 1 else 0"', '"0x3F800000 if r == 1 else 0"'),
    ]
    return changed(folder, changes, "factor")


def sums_of(folder: Path, bits: int) -> Path:
    """Sums of fewer bits, which wrap."""
    own = [("wrap(s[o], i24)", f"wrap(s[o], i{bits})"), ("accumulator_bits: 24", f"accumulator_bits: {bits}"), ("1 << 22", f"1 << {bits - 2}")]
    return changed(folder, [("", old, new) for old, new in own])
