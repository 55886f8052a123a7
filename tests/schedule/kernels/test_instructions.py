"""Instructions as columns: what a kernel's items say of each tile, held against the same instructions assembled from text. Faults of
instructions, told of the place that wrote them."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operations.made import load_machine
from tests.schedule.convolutions import convolution
from tests.schedule.template_kernels import STORE, write_template_kernels
from toolchain.isa.assembly import assemble, build_from_tables, write_line
from toolchain.isa.assembly_line import forms
from toolchain.schedule.compile_operation import compile_operation
from toolchain.schedule.kernels.frame import Frame
from toolchain.schedule.kernels.instructions import SHOWN, Batch, InstructionWriter, join_batches, once, told, told_for
from toolchain.schedule.kernels.kernel import Formula, Issue, Item
from toolchain.schedule.kernels.kernel_file import read_kernels
from toolchain.spec.errors import Diagnostic, Source, Span, UserError
from toolchain.spec.expr import Binary, Compare, Const, Expr, Name
from toolchain.spec.load import load_machine as load_machine_file

VTA = load_machine("vta")
FORMS = forms(VTA)
PLACE = Span(Source("kernels.yaml", ""), 1, 1)
BASE, TIMES, ROUND = Name("base"), Name("times"), Name("round")

MACHINE = load_machine_file("vta")
OPERATION = convolution((1, 32, 6, 6), (16, 3, 3), pads=(1, 1, 1, 1))
FAULT = Diagnostic("E0404", "a store cannot pad")


def _formula(expr: Expr, *names: str) -> Formula:
    return Formula(expr, frozenset(names))


def _load(address: Expr) -> Issue:
    fields = {"memory_type": Const(2), "sram_base": address, "y_size": Const(1), "x_size": Const(1), "x_stride": Const(1)}
    return Issue("LOAD", {name: _formula(expr) for name, expr in fields.items()}, "load", "", (), PLACE)


def _item(body: Issue | tuple[Item, ...], loops: dict[str, Expr] | None = None, when: Expr | None = None) -> Item:
    counts = {name: _formula(expr) for name, expr in (loops or {}).items()}
    return Item(counts, {}, _formula(when) if when else None, body, False, frozenset(), frozenset())


ODD = Compare("==", Binary("%", ROUND, Const(2)), Const(1))
ITEMS = (
    _item(_load(BASE)),
    _item((_item(_load(Binary("+", BASE, ROUND))), _item(_load(ROUND), when=ODD)), {"round": TIMES}),
    _item(Issue("FINISH", {}, "compute", "", (), PLACE)),
)


def _frame(bases: list[int], times: list[int]) -> Frame:
    return Frame(len(bases), {"base": np.array(bases), "times": np.array(times)}.__getitem__)


def _expected(base: int, times: int) -> list[str]:
    lines = [f"LOAD memory_type=inp sram_base={base} dram_base=0 y_size=1 x_size=1 x_stride=1"]
    for number in range(times):
        lines += [f"LOAD memory_type=inp sram_base={base + number} dram_base=0 y_size=1 x_size=1 x_stride=1"]
        lines += [f"LOAD memory_type=inp sram_base={number} dram_base=0 y_size=1 x_size=1 x_stride=1"] * (number % 2)
    return [*lines, "FINISH"]


def _columns(batch: Batch, lines: list[str]) -> tuple[list[list[int]], list[list[int]]]:
    """The values of a batch, and those of the lines as the assembler reads them."""
    program = assemble(VTA, Source("lines.asm", "\n".join(line for line in lines if line != "FINISH") + "\nFINISH\n"))
    kinds = list(FORMS.values())
    read = [[program.field(n, f.name) for f in kinds[int(program.kind[n])].fields] for n in range(len(program))]
    return [batch.values(n) for n in range(len(batch))], read


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 5)), min_size=1, max_size=6))
def test_the_items_of_each_row_stand_in_order(rows: list[tuple[int, int]]) -> None:
    batch = InstructionWriter(VTA).write(ITEMS, _frame([base for base, _ in rows], [times for _, times in rows]), str)
    assert batch.of.tolist() == sorted(batch.of.tolist())
    for number, (base, times) in enumerate(rows):
        lines = _expected(base, times)
        mine = [n for n in range(len(batch)) if batch.of[n] == number]
        assert [write_line(list(FORMS.values())[int(batch.kind[n])], batch.values(n)) for n in mine] == lines
        assert {batch.sources[int(batch.source[n])] for n in mine} == {PLACE}


def test_columns_are_those_that_the_assembler_reads() -> None:
    batch = InstructionWriter(VTA).write(ITEMS, _frame([7], [3]), str)
    mine, read = _columns(batch, _expected(7, 3))
    assert mine == read


def test_tables_give_the_bytes_of_the_text() -> None:
    batch = InstructionWriter(VTA).write(ITEMS, _frame([3], [4]), str)
    tables = [batch.tables.get(f.kind, np.zeros((0, len(f.fields)), np.int64))[batch.row[batch.kind == f.kind]] for f in FORMS.values()]
    built = build_from_tables(VTA, batch.kind, np.zeros(len(batch), np.int64), tables)
    assert built.streams == assemble(VTA, Source("lines.asm", "\n".join(_expected(3, 4)))).streams


def test_joined_batches_keep_values_and_places() -> None:
    writer = InstructionWriter(VTA)
    one, two = writer.write(ITEMS, _frame([1, 2], [0, 2]), str), writer.write(ITEMS[:1], _frame([9], [0]), str)
    joined = join_batches([one, two, one])
    assert [joined.values(n) for n in range(len(joined))] == [each.values(n) for each in (one, two, one) for n in range(len(each))]
    assert len(joined.sources) == 2 * len(one.sources) + len(two.sources)
    assert len(join_batches([])) == 0


def test_a_value_that_its_field_does_not_hold_names_the_row() -> None:
    with pytest.raises(UserError) as caught:
        InstructionWriter(VTA).write(ITEMS, _frame([0, 1 << 20], [0, 0]), lambda row: f"tile {row}")
    assert "E0304 LOAD's sram_base is 1048576, outside 0..65535, for tile 1" in str(caught.value)


def test_a_template_is_named_by_its_path() -> None:
    found = told(FAULT, "STORE " + "x" * SHOWN, "conv store y", Path("store.asm.j2"))
    assert str(UserError(found)) == f"store.asm.j2: E0404 a store cannot pad, in `STORE {'x' * (SHOWN - 6)}...` for conv store y"


def test_a_kernel_file_is_named_by_its_line() -> None:
    place = Span(Source("kernels.yaml", "steps:\n  - STORE\n"), 2, 5)
    text = str(UserError(told(FAULT, "STORE", "conv store y", place)))
    assert text.startswith("kernels.yaml:2:5: E0404 a store cannot pad, in `STORE` for conv store y")


def test_each_place_has_a_fault_once() -> None:
    other = Diagnostic("E0405", "no counter")
    assert once([(FAULT, "a"), (FAULT, "a"), (FAULT, "b"), (other, "a")]).diagnostics == (FAULT, FAULT, other)


def test_what_a_template_was_rendered_for() -> None:
    assert "E0404 a store cannot pad (for conv)" in str(told_for(UserError(FAULT), "conv"))


@pytest.mark.parametrize(
    ("store", "message"),
    [
        (STORE.replace("STORE", "STORE y_pad_0=1"), "store.asm.j2: E0404 "),
        (STORE.replace("x_stride=1", "x_stride=1 x_stride=1"), "store.asm.j2: E0306 the field x_stride is given twice, in `STORE "),
        (STORE + ".stream 0\n", "E1005 "),
        (STORE + "# a word\n", "writes lines that are no instructions, for conv store y"),
        (STORE + "FINISH\n", "E0309 "),
    ],
)
def test_a_template_that_writes_what_the_machine_refuses(store: str, message: str, tmp_path: Path) -> None:
    text = write_template_kernels(tmp_path)
    (tmp_path / "vta" / "store.asm.j2").write_text(store)
    kernel = read_kernels(MACHINE, Source("kernels.yaml", text), tmp_path / "vta")["conv2d"]
    with pytest.raises(UserError) as caught:
        compile_operation(MACHINE, kernel, OPERATION, timed=1)
    assert message in str(caught.value)
    assert len(caught.value.diagnostics) == 1
