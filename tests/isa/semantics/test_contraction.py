"""Matrix products found on the semantics tree, and what must not be taken for one."""

import pytest

from tests.tiny_machine import tiny
from toolchain.isa.semantics.contraction import Contraction, find_contractions
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.spec.load import load_machine


def found(name: str, instruction: str) -> Contraction:
    machine = load_machine(name)
    (only,) = find_contractions(machine, machine_semantics(machine)[instruction])
    return only


def loops(c: Contraction) -> list[list[str]]:
    return [[loop.var for loop in some] for some in (c.pixel_loops, c.group_loops, c.serial_loops, c.inner)]


def test_a_convolution_summed_in_a_temporary() -> None:
    c = found("dpuv3", "CONV")
    assert loops(c) == [["i", "j"], ["g"], [], ["b", "a", "cg"]]
    assert (c.target, c.sum_lanes, c.pixel_lanes, c.group_lanes) == ("s", ("c",), (), ("o",))
    assert (c.a.view.name, c.b.view.name, len(c.guards), c.when) == ("fm", "pm.weight", 1, ())


def test_a_product_summed_in_a_memory() -> None:
    c = found("vta", "GEMM")
    assert not isinstance(c.target, str)
    assert c.target.view.name == "acc"
    assert loops(c) == [[], [], ["i", "j", "u"], []]
    assert (c.pixel_lanes, c.group_lanes, [side for _, side in c.when]) == (("b",), ("o",), [False])


@pytest.mark.parametrize(("machine", "instructions"), [("dnnvm", {"CONV", "TCONV"}), ("stcp920", {"MMA"})])
def test_other_machines(machine: str, instructions: set[str]) -> None:
    loaded = load_machine(machine)
    assert {name for name, s in machine_semantics(loaded).items() if find_contractions(loaded, s)} == instructions


SUM = "t[r] += dot(par[k][r, c], feat[0, i][c])\n"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("for i in range(n):\n    t[r]: wrap(i32) = m\n    for k in range(4):\n        " + SUM + "    acc[i % 4][o] = reduce_max(t[r])\n", 1),
        ("for i in range(n):\n    t[r]: saturate(i32) = m\n    for k in range(4):\n        " + SUM + "    acc[i % 4][o] = reduce_max(t[r])\n", 0),
        ("for i in range(n):\n    t[r]: wrap(i32) = m\n    for k in range(i % 4):\n        " + SUM + "    acc[i % 4][o] = reduce_max(t[r])\n", 0),
        ("for i in range(n):\n    t[r]: wrap(i32) = m\n    for k in range(4):\n        " + SUM + "    feat[0, i][o] = clip(reduce_max(t[r]))\n", 0),
        ("for i in range(4):\n    acc[i][o] = acc[i][o] + dot(par.turned[i][o, q], par[0][q, o])\n", 0),
    ],
    ids=["a product", "saturating sums have an order", "bounds that a loop moves", "in place: reads what it wrote", "no accumulation"],
)
def test_what_counts_as_a_product(text: str, count: int) -> None:
    machine = tiny(text)
    assert len(find_contractions(machine, machine_semantics(machine)["OP"])) == count
