"""Iterations are counted before they run, by every engine alike; the loops that instructions run by themselves; values that an iteration hands to the
next."""

import numpy as np
import pytest

from tests.tiny_machine import streams, tiny, word
from toolchain.analysis.state import new_state
from toolchain.emulator import Engine, native, numpy_engine, reference
from toolchain.isa.decode import decode
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.loops import LoopNest, assigned, carried, chains, exposed, loop_nest
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.isa.semantics.traverse import statements
from toolchain.spec.errors import UserError
from toolchain.spec.load import find_target, load_machine, load_text

ENGINES = [reference.run, numpy_engine.run, *([native.run] if native.available() else [])]
ENDLESS = {
    "one loop": "for i in range(m * m * m):\n    one[0] = i & 1",
    "nested": "for i in range(m), j in range(m), k in range(m):\n    one[0] = k & 1",
    "nested with a name between": "for i in range(m):\n    x = i + 1\n    for j in range(m), k in range(m):\n        one[0] = x & 1",
    "a product": "for i in range(m), j in range(m), k in range(m):\n    acc[k % 4][o] += dot(feat[0, i][c], par[j % 4][r, c])",
    "nothing inside": "for i in range(m * m * m):\n    for j in range(0):\n        one[0] = 1",
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", [*ENDLESS])
def test_loops_that_would_run_for_ever_are_refused(name: str, engine: Engine) -> None:
    text = ENDLESS[name].replace("par[j % 4][r, c]", "par[j % 4][0, c]")
    program = decode(tiny(text), streams([word(0, m=2047)]))
    with pytest.raises(UserError, match=r"^#0 OP at 0x0.* E0706 the loops of this instruction run more than 4294967296 times"):
        engine(program, new_state(program.machine), np.arange(len(program)))


@pytest.mark.parametrize("engine", ENGINES)
def test_loops_that_run_not_at_all_are_fine(engine: Engine) -> None:
    text = "for i in range(0, -m):\n    for j in range(m * m), k in range(m * m):\n        one[0] = 1"
    program = decode(tiny(text), streams([word(0, m=2047)]))
    engine(program, new_state(program.machine), np.arange(len(program)))


def test_a_chain_ends_where_bounds_depend_on_it() -> None:
    text = "for i in range(n), j in range(m):\n    for k in range(i, n):\n        x = k * 2\n"
    text += "        for h in range(x), g in range(n):\n            one[0] = 1"
    found = chains(machine_semantics(tiny(text))["OP"].body)
    assert [[loop.var for loop in chain] for chain in found.values()] == [["i", "j"], ["k"], ["h", "g"]]


def test_bounds_that_may_fail_are_not_computed_early() -> None:
    text = "for i in range(n):\n    for j in range(cfg[b].m):\n        one[0] = 1"
    found = chains(machine_semantics(tiny(text))["OP"].body)
    assert all(len(chain) == 1 and isinstance(chain[0], ir.For) for chain in found.values())


FACTORS = {name: (f"{name}_factor_out", f"{name}_factor_in") for name in ("dst", "src", "wgt")}
TEXT = find_target("vta").read_text()


def nest_of(text: str, instruction: str = "GEMM") -> LoopNest | None:
    return loop_nest(machine_semantics(load_text(text, "vta.yaml"))[instruction])


@pytest.mark.parametrize("config", ["sim", "hls"])
def test_factors_and_records(config: str) -> None:
    semantics = machine_semantics(load_machine("vta", config))
    gemm = LoopNest(("iter_out", "iter_in"), "uop", "uop_bgn", "uop_end", FACTORS)
    alu = LoopNest(("iter_out", "iter_in"), "uop", "uop_bgn", "uop_end", {name: FACTORS[name] for name in ("dst", "src")})
    assert (loop_nest(semantics["GEMM"]), loop_nest(semantics["ALU"])) == (gemm, alu)
    assert {name for name, found in semantics.items() if loop_nest(found) is None} == {"LOAD", "STORE", "FINISH"}


def test_an_address_that_starts_at_a_field() -> None:
    text = TEXT
    for name in ("dst", "src", "wgt"):
        text = text.replace(f"k.{name} + i * ", f"{name}_factor_in + i * ").replace(f" + j * {name}_factor_in", f" + j * {name}_factor_out")
    text = text.replace(
        "for i in range(iter_out), j in range(iter_in), u in range(uop_bgn, uop_end):\n          k = uop[u]",
        "for i in range(iter_out), j in range(iter_in):",
    )
    factors = {f"{name}_factor_in": (f"{name}_factor_out", f"{name}_factor_out") for name in FACTORS}
    assert nest_of(text) == LoopNest(("iter_out", "iter_in"), "", "", "", factors)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("d = k.dst + i * dst_factor_out", "d = k.dst + 2 * i * dst_factor_out"),
        ("d = k.dst + i * dst_factor_out", "d = k.dst + i"),
        ("d = k.dst + i", "d = k.dst + i * i"),
        ("j in range(iter_in), u", "j in range(iter_in + 1), u"),
        ("u in range(uop_bgn, uop_end)", "u in range(uop_bgn, uop_end + 1)"),
        ("w = k.wgt + i", "w = k.wgt + k.wgt + i"),
    ],
)
def test_anything_else_is_no_such_nest(old: str, new: str) -> None:
    assert old in TEXT
    assert nest_of(TEXT.replace(old, new, 1)) is None


def body(semantics: str) -> tuple[ir.Stmt, ...]:
    return machine_semantics(tiny(semantics))["OP"].body


def loop(semantics: str) -> ir.For:
    return next(stmt for stmt in statements(body(semantics)) if isinstance(stmt, ir.For))


def test_sums_and_other_running_names() -> None:
    text = "t = 0\nu = 0\nfor i in range(n):\n    t = t + i\n    u = max(u, i)\n    w = i\n    one[w % 4] = 1\nacc[t % 4][o] = u\n"
    assert carried(loop(text).body) == ([("t", False)], [("u", False)])


def test_a_name_set_anew_in_every_iteration_is_not_carried() -> None:
    assert carried(loop("for i in range(n):\n    t = i\n    t = t + 1\n    one[t % 4] = 1\n").body) == ([], [])


def test_inner_loop_variables_are_not_carried() -> None:
    assert carried(loop("for i in range(n), j in range(i, n):\n    one[j % 4] = 1\n").body) == ([], [])


def test_temporaries_summed_in_inner_loops() -> None:
    text = "for i in range(n):\n    s[o]: wrap(i32) = 0\n    for j in range(n):\n        s[o] += sat[0][o]\n    acc[0][o] = s[o]\n"
    outer = loop(text)
    inner = next(stmt for stmt in outer.body if isinstance(stmt, ir.For))
    assert carried(outer.body) == ([], [])
    assert carried(inner.body) == ([("s", True)], [])


def test_a_sum_that_decides_something_is_no_plain_sum() -> None:
    text = "t = 0\nfor i in range(n):\n    if t < 5:\n        t = t + i\none[t % 4] = 1\n"
    assert carried(loop(text).body) == ([], [("t", False)])


def test_exposed_through_branches() -> None:
    text = "t = 0\nif a > 0:\n    t = 1\nelse:\n    t = 2\none[t % 4] = 1\n"
    statements = body(text)
    assert exposed(statements[1:]) == (frozenset(), {("t", False)})
    assert exposed(statements[2:]) == ({("t", False)}, frozenset())


def test_everything_assigned() -> None:
    assert assigned(body("for i in range(n):\n    s[o]: i8 = 1\n    t = i\n    acc[t % 4][o] = s[o]\n")) == {("i", False), ("s", True), ("t", False)}
