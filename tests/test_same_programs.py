"""Slips that are proved to change no program, and their neighbours, which do: bench/same_programs.py."""

import shutil
from pathlib import Path

import pytest

from bench.same_programs import plain, same_meaning, same_programs
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.spec.errors import Source, Span
from toolchain.spec.expr import Const, Expr, parse_expr
from toolchain.spec.load import load_machine

TARGETS = Path(__file__).resolve().parents[1] / "targets"


def parse(text: str) -> Expr:
    source = Source("t", text)
    return parse_expr(text, lambda line, column: Span(source, line, column + 1))


def test_sides_that_are_never_taken_do_not_count() -> None:
    assert plain(parse("a if 3 < 3 else b + (2 - 2)")) == plain(parse("b + 0 * 1"))
    assert plain(parse("1 and 0 or 5 > 4")) == Const(1)
    assert plain(parse("1 // 0 if 0 else a")) == parse("a")
    assert plain(parse("a if c else b")) != plain(parse("b"))


SLIPS = [
    ("softmax", "halves.yaml", "{HSOFTMAX: {channels: channels,", "target_pixel: y_pixel", "target_pixel: 0", True),
    ("softmax", "halves.yaml", "{HSOFTMAX: {channels: channels,", "target_row: y_line", "target_row: 0", False),
    ("layer_norm", "sequences.yaml", "  layer_norm:", "% 32 if k < 128", "% 32 if k <= 128", True),
    ("layer_norm", "sequences.yaml", "  layer_norm:", "% 32 if k < 192", "% 32 if k < 190", False),
    ("layer_norm", "sequences.yaml", "  layer_norm:", "& 255 if k < 128", "& 255 if k <= 128", False),
    ("place_row", "halves.yaml", "  place_row:", "b_row: 0,", "b_row: 1 - 1,", True),
    ("place_row", "halves.yaml", "  place_row:", "space: llb if flags_shared else ddr", "space: ddr", False),
]


@pytest.mark.parametrize(("kernel", "file", "after", "old", "new", "proved"), SLIPS)
def test_a_slip_in_a_kernel(kernel: str, file: str, after: str, old: str, new: str, proved: bool, tmp_path: Path) -> None:
    """One pixel to a row has no step to the next; values of a tensor are the same for each index; a sum of constants is one."""
    shutil.copy(TARGETS / "stcp920.yaml", tmp_path)
    shutil.copytree(TARGETS / "stcp920", tmp_path / "stcp920")
    text = (tmp_path / "stcp920" / file).read_text()
    start = text.index(old, text.index(after))
    (tmp_path / "stcp920" / file).write_text(text[:start] + new + text[start + len(old) :])
    before, machine = load_machine("stcp920", "f16"), load_machine(str(tmp_path / "stcp920.yaml"), "f16")
    assert same_programs(machine, load_kernels(before)[kernel], load_kernels(machine)[kernel]) == proved


MEANINGS = [
    ("b + i * b_row + j * b_pixel + n * 2", "b + i * b_row - j * b_pixel + n * 2", True),
    ("b + i * b_row + j * b_pixel + n * 2", "b + i * b_row + j * b_pixel - n * 2", False),
    ("a + i * a_row + j * a_pixel + n * 2", "a - i * a_row + j * a_pixel + n * 2", False),
]


@pytest.mark.parametrize(("old", "new", "proved"), MEANINGS)
def test_a_slip_in_an_instruction_that_a_kernel_has_for_one_column(old: str, new: str, proved: bool, tmp_path: Path) -> None:
    text = (TARGETS / "stcp920.yaml").read_text()
    start = text.index(old, text.index("  HPLACE:"))
    (tmp_path / "stcp920.yaml").write_text(text[:start] + new + text[start + len(old) :])
    shutil.copytree(TARGETS / "stcp920", tmp_path / "stcp920")
    before, machine = load_machine("stcp920", "f16"), load_machine(str(tmp_path / "stcp920.yaml"), "f16")
    kernels = load_kernels(machine)
    assert same_meaning(before, machine, [kernels["place_row"]]) == proved
    assert not same_meaning(before, machine, [kernels["softmax"]]), "it has no such instruction, so others may"


@pytest.mark.parametrize("target", ["vta", "dnnvm"])
def test_kernels_are_the_same_as_themselves_and_no_others(target: str) -> None:
    machine, other = load_machine(target), load_machine(target)
    kernels, again = load_kernels(machine), load_kernels(other)
    assert all(same_programs(machine, kernels[name], again[name]) for name in kernels)
    assert not any(same_programs(machine, kernels[one], kernels[two]) for one in kernels for two in kernels if one != two)


@pytest.mark.parametrize(("old", "new", "proved"), [("together: 1", "together: 2", True), ("scale_w: factor_w", "scale_w: factor_h", False)])
def test_fewer_tiles_are_those_that_were_there(old: str, new: str, proved: bool, tmp_path: Path) -> None:
    """`multiple: together` of a dimension, where a kernel gives the name to a constant; the other way round tiles are new."""
    shutil.copy(TARGETS / "dpuv3.yaml", tmp_path)
    shutil.copytree(TARGETS / "dpuv3", tmp_path / "dpuv3")
    text = (tmp_path / "dpuv3" / "elementwise.yaml").read_text()
    start = text.index(old, text.index("  upsample:"))
    (tmp_path / "dpuv3" / "elementwise.yaml").write_text(text[:start] + new + text[start + len(old) :])
    before, machine = load_machine("dpuv3"), load_machine(str(tmp_path / "dpuv3.yaml"))
    one, other = load_kernels(before)["upsample"], load_kernels(machine)["upsample"]
    assert same_programs(machine, one, other) == proved
    assert not same_programs(machine, other, one)
