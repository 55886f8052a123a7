"""Waits and posts as rules, for every way of declaring them.

A name is one of those that there are, or the nearest is told.

Instructions that do nothing, declared and refused.

Interlocks as declared: what is watched where nothing is said, and what is named.

Units that run coupled, and those that cannot."""

from pathlib import Path

import pytest

from tests.spec.small import small
from toolchain.spec.errors import Source, UserError
from toolchain.spec.expr import Binary, Const, Name
from toolchain.spec.fingerprint import fingerprint
from toolchain.spec.load import load_machine, load_text
from toolchain.spec.model import Interlock, Machine, Watch
from toolchain.spec.render import render
from toolchain.spec.sections.synchronisation import one_of
from toolchain.spec.yaml_nodes import parse_yaml


def test_a_name_that_is_known_and_one_that_is_not() -> None:
    root = parse_yaml(Source("m.yaml", "unit: laod\n"))
    assert one_of("unit", root.value["unit"], ["laod"]) == "laod"
    with pytest.raises(UserError, match=r"m.yaml:1:7: E0107 unknown unit 'laod'; did you mean 'load'\?"):
        one_of("unit", root.value["unit"], ["store", "load"])


TEXT = (Path(__file__).resolve().parents[3] / "targets" / "vta.yaml").read_text()
DECLARED = "compute: {instruction: LOAD, fields: {memory_type: uop}"


def test_fields_that_are_not_named_hold_their_default() -> None:
    (nop,) = load_machine("vta").nops
    assert (nop.unit, nop.instruction) == ("compute", "LOAD")
    assert set(nop.fields.values()) == {0}


def test_bits_do_not_depend_on_it() -> None:
    assert fingerprint(load_text(TEXT.replace(DECLARED, "compute: {instruction: FINISH"), "vta.yaml")) == fingerprint(load_machine("vta"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("comput: {instruction: LOAD", "E0107 unknown unit 'comput'; did you mean 'compute'?"),
        ("compute: {instruction: LOADS", "E0107 unknown instruction 'LOADS'"),
        ("compute: {instruction: LOAD, fields: {opcode: 0}", "E0131 'opcode' is no field of LOAD that can be chosen"),
        ("compute: {instruction: LOAD, fields: {x_siz: 0}", "E0131 'x_siz' is no field of LOAD that can be chosen; did you mean 'x_size'?"),
        ("compute: {instruction: LOAD, fields: {memory_type: inp}", "E0144 with these fields LOAD does not go to unit 'compute'"),
        ("compute: {instruction: LOAD, fields: {memory_type: 9}", "E0144 9 is outside 0..7 of 'memory_type'"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    assert DECLARED in TEXT
    with pytest.raises(UserError) as caught:
        load_text(TEXT.replace(DECLARED, text), "vta.yaml")
    assert message in str(caught.value)


MASKS = (
    ("wait: {bits: 1,", "wait: {bits: 2,"),
    ("post: {bits: 1,", "post: {bits: 2,"),
    ("kind: {bits: 2,", "kind: {bits: 2, doc: two,"),
    ("shift: {at: 0.15-8}", "shift: {at: 0.15-9}"),
    ("low: {at: 0.7-6}", "low: {at: 0.8-8}"),
    ("there: {from: move, to: calc, depth: 4, scope: core}", "edge: {pairs: [move, calc], depth: 3}"),
    ("    back: {from: calc, to: move, depth: 4, scope: core}\n", ""),
    ("wait: {calc: there, move: back}", "wait: {mask: [move, calc], counter: edge}"),
    ("post: {move: there, calc: back}", "post: {mask: [move, calc], counter: edge}"),
)


def test_tokens_of_units() -> None:
    machine = small()
    waits = {(r.units, r.counter) for r in machine.sync if r.kind == "wait"}
    assert waits == {(("calc",), "there"), (("move",), "back")}
    assert all(r.instructions == ("END", "MOVE", "SETUP", "CALC") for r in machine.sync)
    assert machine.illegal == ()


def test_a_field_is_illegal_where_no_counter_is() -> None:
    edits = (("    post: {move: there, calc: back}", "    post: {move: there}"), ("    back: {from: calc, to: move, depth: 4, scope: core}\n", ""))
    machine = small(*edits, ("wait: {calc: there, move: back}", "wait: {calc: there}"))
    assert {(i.field, i.unit) for i in machine.illegal} == {("wait", "move"), ("post", "calc")}


def test_masks_of_pairs() -> None:
    machine = small(*MASKS)
    assert [c.name for c in machine.counters] == ["edge.move.move", "edge.move.calc", "edge.calc.move", "edge.calc.calc"]
    wait = next(r for r in machine.sync if r.kind == "wait" and r.counter == "edge.calc.move")
    assert (wait.units, wait.when) == (("move",), Binary("&", Binary(">>", Name("wait"), Const(1)), Const(1)))
    post = next(r for r in machine.sync if r.kind == "post" and r.counter == "edge.calc.move")
    assert (post.units, post.when) == (("calc",), Binary("&", Binary(">>", Name("post"), Const(0)), Const(1)))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{wait: there, when: kind}", "E0107"),
        ("{wait: their}", "E0115"),
        ("{wait: there, instructions: [MOVE, NONE]}", "E0107"),
        ("{post: there, instructions: [MOVE], over: {chip: 1}}", "E0107"),
        ("{wait: there, post: there}", "E0116"),
        ("{wait: there, amount: clog2()}", "E0123"),
    ],
)
def test_bad_rules(text: str, code: str) -> None:
    with pytest.raises(UserError) as caught:
        small(("functions: |", f"  rules:\n    - {text}\nfunctions: |"))
    assert code in [d.code for d in caught.value.diagnostics]


def test_a_rule() -> None:
    machine = small(
        ("functions: |", "  rules:\n    - {wait: there, when: kind == 1, amount: count, instructions: [MOVE], over: {core: 3}}\nfunctions: |")
    )
    rule = machine.sync[-1]
    assert (rule.kind, rule.counter, rule.amount, rule.instructions, rule.over) == ("wait", "there", Name("count"), ("MOVE",), (("core", Const(3)),))


def test_depth_0_is_without_limit() -> None:
    assert small(("to: calc, depth: 4", "to: calc, depth: 0")).counters[0].depth is None


@pytest.mark.parametrize("depth", ["-1", "1 << 50"])
def test_depth(depth: str) -> None:
    with pytest.raises(UserError, match="E0139"):
        small(("to: calc, depth: 4", f"to: calc, depth: {depth}"))


def coupled(*pairs: str, edits: tuple[tuple[str, str], ...] = ()) -> Machine:
    return small(("  posts:\n", f"  interlock: {{pairs: [{', '.join(pairs)}]}}\n  posts:\n"), *edits)


def test_a_lag_is_an_expression() -> None:
    found = coupled("{from: calc, to: move, memories: [sums], lag: LANES + 1}", "{from: calc, to: move}").interlock
    assert isinstance(found, Interlock)
    assert [watch.lag for watch in found.watches] == [5, None]


@pytest.mark.parametrize(
    ("pairs", "reason"),
    [
        (("{from: calc, to: calc, memories: [sums], lag: 1}",), "they are one"),
        (("{from: calc, to: move, memories: [rows], lag: 1}", "{from: calc, to: move}"), "'move' also writes 'rows'"),
        (("{from: calc, to: move, memories: [sums], lag: 1}",), "they share 'rows', which is not compared between them"),
        (
            ("{from: calc, to: move, memories: [sums], lag: 1}", "{from: calc, to: move, memories: [set], lag: 2}", "{from: calc, to: move}"),
            "they are coupled already",
        ),
    ],
)
def test_who_cannot(pairs: tuple[str, ...], reason: str) -> None:
    with pytest.raises(UserError, match=f"E0146 units .* cannot run coupled: {reason}"):
        coupled(*pairs)


def test_neighbours_that_overlap_cannot() -> None:
    pairs = ("{from: calc, to: move, memories: [sums], lag: 1}", "{from: calc, to: move}")
    with pytest.raises(UserError, match="neighbours in 'calc' may overlap"):
        coupled(*pairs, edits=((" calc: {reads", " calc: {overlaps: true, reads"),))


def test_an_instruction_that_occupies_a_unit_brings_its_ports() -> None:
    pairs = ("{from: calc, to: move, memories: [codes], lag: 1}", "{from: calc, to: move, memories: [rows, sums, ddr, set]}")
    with pytest.raises(UserError, match="'move' also writes 'codes'"):
        coupled(*pairs)
    fine = ("{from: calc, to: move, memories: [sums], lag: 1}", "{from: calc, to: move, memories: [rows, ddr, codes, set]}")
    coupled(*fine)
    with pytest.raises(UserError, match="'move' also writes 'sums'"):
        coupled(*fine, edits=(("    timing: calc\n    semantics", "    timing: calc\n    occupies: [calc]\n    semantics"),))


def locked(text: str) -> Interlock:
    found = small(("  posts:\n", f"  interlock: {text}\n  posts:\n")).interlock
    assert found is not None
    return found


def test_without_a_word_every_unit_watches_every_memory() -> None:
    machine = small(("  posts:\n", "  interlock: {}\n  posts:\n"))
    everything = tuple(m.name for m in machine.memories)
    units = [u.name for u in machine.units]
    assert machine.interlock == Interlock(tuple(Watch(a, b, everything) for a in units for b in units))


def test_pairs_have_memories_of_their_own_or_those_of_all() -> None:
    found = locked("{memories: [rows, sums], pairs: [{from: move, to: calc}, {from: calc, to: move, memories: [codes]}]}")
    assert found.watches == (Watch("move", "calc", ("rows", "sums")), Watch("calc", "move", ("codes",)))


def test_numbers_are_expressions_and_nought_is_no_limit() -> None:
    found = locked("{window: LANES * 2, looks_back: 0, granularity: {rows: LANES, sums: 0}, fences: [END]}")
    assert (found.window, found.looks_back, found.granularity, found.fences) == (8, None, (("rows", 4), ("sums", 0)), ("END",))


def test_a_machine_that_has_none_shows_none() -> None:
    assert small().interlock is None
    assert "interlock" not in render(small())["sync"]
    assert render(small(("  posts:\n", "  interlock: {window: 3}\n  posts:\n")))["sync"]["interlock"]["window"] == 3
