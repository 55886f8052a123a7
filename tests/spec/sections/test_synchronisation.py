"""Waits and posts as rules, for every way of declaring them."""

import pytest

from tests.spec.small import small
from toolchain.spec.errors import UserError
from toolchain.spec.expr import Binary, Const, Name

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
