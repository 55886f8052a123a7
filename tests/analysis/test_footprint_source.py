"""The C of the address phase: a function for each kind of instruction over columns of what no loop changes."""

import pytest

from tests.tiny_machine import tiny
from toolchain.analysis.footprint_source import Table, footprint_source, variable
from toolchain.isa.semantics import ir
from toolchain.spec.load import load_machine

TEXT = "for i in range(n):\n    acc[(i + b) % 4][o] += feat[i % 2, a + i][o] * cfg[i % 2].m\n"


@pytest.mark.parametrize("name", ["vta", "dpuv3", "dnnvm", "stcp920"])
def test_every_kind_has_a_function_and_the_text_is_the_same_each_time(name: str) -> None:
    machine = load_machine(name)
    found = footprint_source(machine)
    assert found == footprint_source(load_machine(name))
    assert all(f"static void kind_{kind}(Work *w, int64_t row)" in found.source for kind in range(len(machine.instructions)))
    assert len(found.columns) == len(machine.instructions)
    assert found.source.count("{") == found.source.count("}")


def test_loop_variables_are_no_columns() -> None:
    machine = tiny(TEXT)
    kind = next(kind for kind, instruction in enumerate(machine.instructions) if instruction.name == "OP")
    columns = footprint_source(machine).columns[kind]
    assert {e.name for e in columns if isinstance(e, ir.FieldRef)} == {"a", "b", "n"}
    assert not any(isinstance(e, ir.Var) for e in columns)
    assert not footprint_source(machine).columns[kind - 1 if kind else kind + 2]


def test_a_register_whose_index_runs_is_a_table() -> None:
    machine = tiny("for i in range(n):\n    acc[cfg[i % 2].a % 4][o] = cfg[1].b\n")
    kind = next(kind for kind, instruction in enumerate(machine.instructions) if instruction.name == "OP")
    columns = footprint_source(machine).columns[kind]
    assert [e for e in columns if isinstance(e, Table)] == [Table("cfg", "a")]


def test_names_that_c_does_not_know_are_written_otherwise() -> None:
    assert (variable("i"), variable("way@1"), variable("i#2")) == ("v_i", "v_wayat_1", "v_i_n2")
