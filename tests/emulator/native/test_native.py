"""The C of single parts: names, statements, lanes, and which fast form a matrix product takes; what the C computes is in test_source.py."""

import pytest

from tests.tiny_machine import tiny
from toolchain.emulator.native.accumulate import accumulate_functions, can_accumulate
from toolchain.emulator.native.function import Function, c_type, new_function, straddles, view_number
from toolchain.emulator.native.lanes import Sheet, is_scalar, lane_strides, new_writer, temp_type, value_type, width
from toolchain.emulator.native.levels import Factors, factors
from toolchain.emulator.native.statements import block, lane_loops
from toolchain.emulator.native.window import can_window, columns, pixels, steps, window_functions
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.contraction import Contraction, find_contractions
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.isa.semantics.traverse import statements
from toolchain.spec.expr import Choose
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine, ScalarType

RING = "for i in range(n):\n    loop.wide[a + i][w] = loop.wide[i][w]\n"


def function_of(text: str, ways: int = 2) -> Function:
    machine = tiny(text, ways=ways)
    return new_function(machine, machine_semantics(machine)["OP"])


def test_scalars_have_c_names_and_bounds() -> None:
    function = function_of("for i in range(n):\n    acc[(i + a) % 4][o] = cfg[b % 2].m + way\n")
    (loop,) = (stmt for stmt in statements(function.semantics.body) if isinstance(stmt, ir.For))
    (store,) = (stmt for stmt in statements(function.semantics.body) if isinstance(stmt, ir.Store))
    end = function.scalar(loop.stop)
    assert (end.text, end.range.low, end.range.high) == ("f_n", 1, 16)
    assert "v_i" in function.scalar(store.access.index[0]).text
    assert any("tw_latched(l_cfg" in line for line in block(function, [store]))
    assert [*function.fields] == ["n", "a", "b"]
    assert [*function.registers] == ["cfg"]
    assert function.fresh("k") != function.fresh("k")


def test_replicas_that_take_other_paths_run_apart() -> None:
    assert not function_of("acc[n % 4][o] = way\n").apart
    assert function_of("if way == 0:\n    acc[n % 4][o] = 1\n").apart
    assert (function_of("pass\n").replicas, function_of("pass\n", ways=1).replicas) == (2, 1)


def test_elements_across_the_end_of_a_ring_are_copied() -> None:
    function = function_of(RING)
    machine = function.machine
    assert [straddles(machine, machine.view[name]) for name in ("loop", "loop.wide", "acc")] == [False, True, False]
    lines = block(function, function.semantics.body)
    assert sum("tw_ring_read(" in line for line in lines) == 2
    assert sum("tw_ring_write(" in line for line in lines) == 1
    plain = function_of("acc[n % 4][o] = 1\n")
    assert not any("tw_ring" in line for line in block(plain, plain.semantics.body))
    assert f"at_{view_number(machine, machine.view['loop.wide'])}(" in "\n".join(lines)


@pytest.mark.parametrize(("signed", "bits", "name", "value"), [(True, 8, "int8_t", 32), (False, 5, "uint8_t", 32), (False, 33, "uint64_t", 64)])
def test_scalars_are_stored_in_the_smallest_type_of_c(signed: bool, bits: int, name: str, value: int) -> None:
    kind = ScalarType(signed, bits)
    assert c_type(kind) == name
    assert (width(kind), value_type(kind)) == (value, f"int{value}_t")


def test_statements_are_written_as_they_stand() -> None:
    function = function_of("if n > 2:\n    acc[0][o] = a\nelse:\n    acc[1][o] = b\n")
    lines = block(function, function.semantics.body)
    assert lines[0].startswith("if (")
    assert "f_n" in lines[0]
    assert "} else {" in lines
    assert sum(line.count("{") - line.count("}") for line in lines) == 0
    looped = function_of("k = a + 1\nfor i in range(n):\n    acc[i % 4][o] = k\n")
    lines = block(looped, looped.semantics.body)
    assert lines[0].startswith("v_k = ")
    (head,) = [line for line in lines if line.startswith("for (int64_t v_i")]
    assert head.endswith("v_i++) {")
    assert lane_loops(looped, ("o",)) == "TW_LOOP for (int l_o = 0; l_o < 4; l_o++)"
    assert block(looped, looped.semantics.body, lambda _: ["instead;"]) == ["instead;"] * 2


def test_a_scalar_is_computed_once_and_only_where_it_is_wanted() -> None:
    function = function_of("acc[n % 4][o] = feat[0, a][o] * (m + 1) if m > 3 else feat[0, a][o] - (m + 1)\n")
    (store,) = (stmt for stmt in statements(function.semantics.body) if isinstance(stmt, ir.Store))
    sheet = Sheet(function)
    found = new_writer(function, sheet).value(store.value)
    assert isinstance(store.value, Choose)
    assert is_scalar(store.value.condition)
    assert not is_scalar(store.value.then)
    names = [line for line in sheet.shared if line.startswith("const ")]
    assert len(names) == 3  # the condition, and m + 1 on either side of it
    assert sum(" ? " in line for line in names) == 2
    assert " ? " in found.text


def test_lanes_that_lie_evenly_need_no_table() -> None:
    machine = tiny("pass\n")
    assert lane_strides(machine.view["acc"]) == (4,)
    assert lane_strides(machine.view["par.turned"]) == (1, 4)
    assert temp_type(function_of("t[o]: i16 = m\nacc[0][o] = t[o]\n"), "t") == ScalarType(True, 16)


def product(machine: Machine, name: str) -> tuple[Function, Contraction, Factors]:
    """The first matrix product of an instruction."""
    semantics = machine_semantics(machine)[name]
    found = next(iter(find_contractions(machine, semantics)))
    made = factors(found, semantics.lanes, 0)
    assert made is not None
    return new_function(machine, semantics), found, made


def test_sums_in_a_memory_and_sums_in_a_temporary_take_different_forms() -> None:
    in_memory, in_temporary = product(load_machine("vta"), "GEMM"), product(load_machine("dpuv3"), "CONV")
    assert (can_accumulate(*in_memory), can_window(*in_memory)) == (True, False)
    assert (can_accumulate(*in_temporary), can_window(*in_temporary)) == (False, True)
    for lines in (accumulate_functions(*in_memory), window_functions(*in_temporary)):
        assert lines[0] == "#if TW_VNNI"
        assert lines[-1] == "#endif"
        assert "\n".join(lines).count("{") == "\n".join(lines).count("}")


def test_blocks_of_a_window_share_their_rows_with_the_replicas() -> None:
    function, _, made = product(load_machine("dpuv3"), "CONV")
    assert pixels(function) * function.replicas == 8
    assert columns(made) == (2 if made.blocks == 1 else 1)
    pixel, column, gap = steps(function, made)
    assert pixel == columns(made) * function.replicas * gap
    assert 0 < column <= pixel


def test_a_product_of_wide_numbers_has_no_form_in_bytes() -> None:
    function, found, made = product(load_machine("vta", overrides={"LOG_INP_WIDTH": "4"}), "GEMM")
    assert not made.bytes_fit
    assert accumulate_functions(function, found, made) == [f"TW_ACCUMULATE_PLAIN(0, int16_t, int8_t, {made.depth})"]
