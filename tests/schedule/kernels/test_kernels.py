"""Kernels as they are read and stated: files joined, names in scope, problems of an operation, and values of many tiles at once."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operations import made
from tests.operations.made import load_machine
from tests.schedule.convolutions import convolution
from toolchain.operations.library import builtin_kinds
from toolchain.schedule.kernels.frame import Frame, enter
from toolchain.schedule.kernels.kernel import Formula, Issue, Item, KernelKey, Require, formulas, issues, numbers_of
from toolchain.schedule.kernels.kernel_file import kernel_source, load_kernels, parse_kernels, required_path, with_parts
from toolchain.schedule.kernels.kernel_names import Seen
from toolchain.schedule.kernels.kernel_parts import read_shared, step_of_shape, with_words
from toolchain.schedule.kernels.kernel_reader import KernelReader
from toolchain.schedule.kernels.limits import Known, faults
from toolchain.schedule.kernels.pools import Slot
from toolchain.schedule.kernels.problem import Kept, Problem, keep_on_chip, state_problem
from toolchain.spec.errors import Source, Span, UserError
from toolchain.spec.expr import Binary, Call, Compare, Const, Expr, Member, Name
from toolchain.spec.yaml_nodes import Node, parse_yaml

VTA = load_machine("vta")
KERNEL = load_kernels(VTA)["conv2d"]
PLACE = Span(Source("kernels.yaml", ""), 1, 1)
ROWS = st.lists(st.tuples(st.integers(0, 70_000), st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=6)


def formula(expr: Expr, *names: str) -> Formula:
    return Formula(expr, frozenset(names))


def load(address: Formula) -> Issue:
    return Issue("LOAD", {"sram_base": address}, "load", "", ("sram_base",), PLACE)


def item(body: Issue | tuple[Item, ...], loops: dict[str, Formula], when: Formula | None = None) -> Item:
    return Item(loops, {}, when, body, False, frozenset(loops), frozenset(loops))


ADDRESS = formula(Binary("+", Name("base"), Binary("*", Name("i"), Const(1000))), "base", "i")
EVEN = formula(Compare("==", Binary("%", Name("i"), Const(2)), Const(0)), "i")
INNER = item(load(ADDRESS), {"j": formula(Name("m"), "m")}, EVEN)
ITEMS = (item((INNER,), {"i": formula(Name("n"), "n")}),)


def frame_of(rows: list[tuple[int, int, int]]) -> Frame:
    columns = dict(zip(("base", "n", "m"), np.array(rows, np.int64).T, strict=True))
    return Frame(len(rows), columns.__getitem__)


def addresses(frame: Frame, items: tuple[Item, ...], rows: list[int]) -> Iterator[tuple[int, int]]:
    """(outer row, address) of every instruction."""
    for inside in enter(items, frame):
        outer = rows if inside.of is None else [rows[n] for n in inside.of.tolist()]
        if isinstance(inside.item.body, Issue):
            yield from zip(outer, inside.frame.column(inside.item.body.fields["sram_base"]).tolist(), strict=True)
        else:
            yield from addresses(inside.frame, inside.item.body, outer)


@given(ROWS)
def test_loops_of_many_rows_are_the_loops_of_each(rows: list[tuple[int, int, int]]) -> None:
    wanted = [(k, base + 1000 * i) for k, (base, n, m) in enumerate(rows) for i in range(n) for _ in range(m) if i % 2 == 0]
    assert sorted(addresses(frame_of(rows), ITEMS, list(range(len(rows))))) == sorted(wanted)


@given(ROWS)
def test_rounds_that_cost_the_same_are_counted(rows: list[tuple[int, int, int]]) -> None:
    same = (replace(INNER, when=None, varying=frozenset()),)
    found = np.zeros(len(rows), np.int64)
    for inside in enter(same, frame_of(rows), once=True):
        found += inside.rounds
    assert found.tolist() == [m for _, _, m in rows]


@given(ROWS)
def test_rows_taken_have_the_values_of_their_own(rows: list[tuple[int, int, int]]) -> None:
    frame = frame_of(rows)
    chosen, which = frame.where(np.array([n for _, n, _ in rows]) > 1)
    kept = [base for base, n, _ in rows if n > 1]
    assert np.broadcast_to(chosen["base"], (chosen.count,)).tolist() == kept
    assert chosen.count == len(kept) == (len(rows) if which is None else len(which))


@given(ROWS)
def test_a_field_that_does_not_hold_its_last_round_is_found(rows: list[tuple[int, int, int]]) -> None:
    every = (item((item(load(ADDRESS), {"j": formula(Name("m"), "m")}),), {"i": formula(Name("n"), "n")}),)
    known = Known(frame_of(rows), frozenset(("base", "n", "m")))
    found = list(faults(VTA, every, known, np.arange(len(rows))))
    wanted = {k for k, (base, n, m) in enumerate(rows) if n and m and base + 1000 * (n - 1) > 65535}
    assert {row for fault in found for row in fault.rows.tolist()} == wanted
    assert {(fault.instruction, fault.field.name) for fault in found} <= {("LOAD", "sram_base")}


def test_a_field_is_not_looked_at_below_an_unknown_condition() -> None:
    known = Known(frame_of([(70_000, 1, 1)]), frozenset(("base", "n", "m")))
    hidden = (replace(ITEMS[0], when=formula(Name("q"), "q")),)
    assert list(faults(VTA, hidden, known, np.arange(1))) == []
    assert next(fault.value for fault in faults(VTA, ITEMS, known, np.arange(1))) == 70_000


def test_items_have_their_instructions_and_expressions_in_order() -> None:
    assert issues(ITEMS + ITEMS) == (load(ADDRESS), load(ADDRESS))
    assert list(formulas(ITEMS)) == [formula(Name("n"), "n"), formula(Name("m"), "m"), EVEN, ADDRESS]


def test_a_kernel_derives_numbers_in_order_and_refuses_with_its_reason() -> None:
    let = {"a": Binary("+", Name("n"), Const(1)), "b": Binary("*", Name("a"), Const(2))}
    small = replace(KERNEL, let=let, requires=(Require(Compare("<=", Name("b"), Const(8)), "too many"),))
    assert numbers_of(small, {"n": 3}) == {"n": 3, "a": 4, "b": 8}
    with pytest.raises(UserError, match=r"E1003.*too many"):
        numbers_of(small, {"n": 4})
    assert [d.name for d in KERNEL.reductions] == ["ic"]
    assert {d.name for d in KERNEL.loops} == {"n", "oc", "oh", "ow"}
    assert KernelKey(small) != KernelKey(replace(small))
    assert replace(KERNEL, passed=("x",)).handed == {"x": "x"}


def test_a_load_names_the_dimensions_of_its_place_alone() -> None:
    seen = Seen(frozenset(), frozenset(), frozenset({"kh"}), frozenset({"x_base", "x_channels"}), KERNEL.tile, KERNEL.windows, KERNEL.places, ())
    loaded, computed = seen.step("load", "w"), seen.step("compute", "y")
    assert {"oc", "oc_at", "ic", "ic_at", "kh", "x_channels"} <= loaded
    assert not {"oh", "oh_at", "h_first", "x_base"} & loaded
    assert {"oh", "oh_at", "h_first", "w_window"} <= computed
    assert {"x_slot", "x_bank", "x_base"} <= seen.placed
    assert "x_channels" not in seen.placed


def joined(folder: Path, own: str, **others: str) -> Node:
    for name, text in others.items():
        (folder / f"{name}.yaml").write_text(text)
    return with_parts(parse_yaml(Source("kernels.yaml", own)), folder)


def test_files_beside_a_kernel_file_add_their_entries(tmp_path: Path) -> None:
    found = joined(tmp_path, "files: [more.yaml]\nkernels: {one: 1}\n", more="kernels: {two: 2}\nshapes: {s: 3}\n")
    assert found.plain() == {"files": ["more.yaml"], "kernels": {"one": 1, "two": 2}, "shapes": {"s": 3}}
    assert found.value["kernels"].value["two"].where().source.path == str(tmp_path / "more.yaml")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("kernels: {one: 2}", r"more.yaml:1:11: E1002 'one' stands in two files, here and at kernels.yaml:2:11"),
        ("pools: {}", r"more.yaml:1:1: E1002 'pools' stands in the machine's own kernel file alone"),
        ("[]", r"more.yaml:1:1: E1002 a file of kernels holds shapes, sequences, common, kernels"),
    ],
)
def test_an_entry_stands_in_one_file(more: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=told):
        joined(tmp_path, "files: [more.yaml]\nkernels: {one: 1}\n", more=more)


def test_a_kernel_file_is_utf_8_and_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"kernels.yaml:1:9: E0001 there is no file 'none.yaml' beside this one"):
        joined(tmp_path, "files: [none.yaml]\n")
    (tmp_path / "bad.yaml").write_bytes(b"ab\xff")
    with pytest.raises(UserError, match="E0001 the kernel file is not UTF-8 text at byte 0x2"):
        kernel_source(tmp_path / "bad.yaml")


def test_words_of_a_place_stand_for_expressions() -> None:
    bound = {"place": Name("x"), "size": Const(4)}
    given_expr = Binary("+", Member(Name("place"), "slot"), Call(Name("min"), (Name("size"), Name("other"))))
    wanted = Binary("+", Name("x_slot"), Call(Name("min"), (Const(4), Name("other"))))
    assert with_words(given_expr, bound) == wanted
    assert with_words(Member(Name("place"), "slot"), {}) == Member(Name("place"), "slot")


def test_a_step_of_a_shape_takes_the_words_that_it_names() -> None:
    shape, place = (
        parse_yaml(Source("kernels.yaml", text))
        for text in ("{arguments: {high: 1, wide: 2}, load: [{LOAD: {y_size: high}}]}", "{shape: s, high: oh, wide: ow}")
    )
    found = step_of_shape(shape, "s", "load", place)
    assert found is not None
    assert (found.name, found.given.plain()) == ("load of shape 's'", {"high": "oh"})
    assert found.sequence.plain() == {"arguments": {"high": 1}, "do": [{"LOAD": {"y_size": "high"}}]}
    assert step_of_shape(shape, "s", "store", place) is None


def reader(let: str) -> KernelReader:
    """A reader of the machine's convolution with these numbers of its own."""
    path = required_path(VTA)
    root, context = parse_kernels(VTA, kernel_source(path), path.parent)
    node = parse_yaml(Source("kernels.yaml", f"let: {let}\n"))
    return KernelReader(VTA, context, node, path.parent, builtin_kinds()["conv2d"], read_shared(VTA, context, root))


def test_numbers_of_a_kernel_come_after_those_that_they_name() -> None:
    assert [name for name, _ in reader("{a: b + c, b: c * 2, c: 3}").sorted_let()] == ["c", "b", "a"]
    found = reader("{a: b + sh, b: 2}").numbers()
    assert list(found)[-2:] == ["b", "a"]
    assert found["a"] == Binary("+", Name("b"), Name("sh"))
    with pytest.raises(UserError, match=r"kernels.yaml:1:16: E0107"):
        reader("{a: 1, b: nowhere}").numbers()


def stated(**options: object) -> Problem:
    return state_problem(VTA, KERNEL, convolution((1, 20, 9, 9), (32, 3, 3), **{"pads": (1, 1, 1, 1)} | options))


def test_a_problem_counts_blocks_of_sixteen_channels() -> None:
    assert stated().extents == {"n": 1, "oc": 32 // 16, "oh": 9, "ow": 9, "ic": -(-20 // 16)}
    assert stated(strides=(2, 2)).extents["oh"] == 5
    assert stated().memories["w"] == "wgt"
    with pytest.raises(UserError, match="E1003 kernel 'conv2d' computes conv2d, and 'a' is a add"):
        state_problem(VTA, KERNEL, made.add("a", (1, 16, 4, 4)))


def test_a_window_that_lies_in_the_padding_is_refused() -> None:
    with pytest.raises(UserError, match="E1003"):
        stated(pads=(3, 3, 3, 3))


def test_rows_of_a_window_by_hand() -> None:
    problem, window = stated(), KERNEL.windows[0]
    assert problem.rows(window, 0, 4) == {"h_first": 0, "h_count": 5, "h_before": 1, "h_after": 0, "h_window": 6}
    assert problem.rows(window, 7, 2) == {"h_first": 6, "h_count": 3, "h_before": 0, "h_after": 1, "h_window": 4}


@pytest.mark.parametrize("stored", [False, True])
def test_a_tensor_on_chip_is_not_loaded_and_stored_where_needed(stored: bool) -> None:
    problem = stated()
    kept = {name: Kept(Slot(0, 0), 100, {}) for name in ("x", "y")}
    found = keep_on_chip(problem, kept, stored, problem.pools)
    steps = [(step.kind, step.place) for step in found.steps]
    assert ("load", "x") not in steps
    assert (("store", "y") in steps) == stored
    assert ("load", "w") in steps
    assert found.loads("x") is None
    assert found.filling("x") == problem.loads("x") is not None
    assert found.elsewhere == {"x", "y"}
