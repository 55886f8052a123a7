"""YAML with positions, by YAML 1.2's rules, hostile input refused.

Mistakes of independent steps are told together, in order of place.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.spec.small import nodes
from toolchain.spec.errors import Diagnostic, Source, Span, UserError, fail
from toolchain.spec.yaml_nodes import Findings, gather, parse_yaml


def test_positions_of_keys_and_values() -> None:
    root = nodes("a:\n  b: [1, {c: x}]\n")
    found = root.at(("a", "b", 1, "c"))
    assert (found.value, found.span.line, found.span.column) == ("x", 2, 14)
    assert found.key_span is not None
    assert (found.key_span.line, found.key_span.column) == (2, 11)


def test_scalars_of_yaml_1_2() -> None:
    text = "[no, on, 12:30:45, 2020-01-01, 1_000, 0x1F, 0o17, 0b11, -3, 1.5, true, ~, null, '1']"
    assert nodes(text).plain() == ["no", "on", "12:30:45", "2020-01-01", 1000, 31, 15, 3, -3, 1.5, True, None, None, "1"]


@given(st.integers(-(1 << 70), 1 << 70), st.sampled_from(["d", "#x", "#X", "#o", "#b"]))
def test_every_integer_in_every_base_is_read_back(number: int, form: str) -> None:
    text = format(number, form).replace("0X", "0x")
    assert nodes(f"[{text}]").plain() == [number]


@pytest.mark.parametrize("text", ["0x", "0o", "0b", "-0x_", "+0b_"])
def test_a_prefix_without_digits_is_text(text: str) -> None:
    assert parse_yaml(Source("a.yaml", f"a: {text}")).plain() == {"a": text}


def test_position_inside_a_block() -> None:
    root = nodes("text: |\n  first\n    second\n")
    span = root.value["text"].locate(2, 2)
    assert (span.line, span.column) == (3, 5)
    assert span.source.line(3)[span.column - 1 :] == "second"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a: 1\na: 2", "E0103"),
        ("a: &x 1", "E0102"),
        ("a: *x", "E0102"),
        ("a: !!python/object:os.system x", "E0102"),
        ("a: 007", "E0102"),
        (f"a: {'1' * 5000}", "E0102"),
        ("[" * 100_000, "E0102"),
        ("{a: " * 30_000, "E0102"),
        ("? [1]\n: 2", "E0102"),
        ('"a\\nb": 2', "E0102"),
        ("", "E0101"),
        ("a: 1\n---\nb: 2", "E0101"),
        ("a: \x00", "E0101"),
        ("# " + "x" * (4 << 20), "E0102"),
        ("a: {b: c[1, 2]}", "E0101"),
        (f"[{'a,' * 200_000}]", "E0102"),
        (f"{{{'a: {},' * 100_000}}}", "E0102"),
    ],
)
def test_refused(text: str, code: str) -> None:
    with pytest.raises(UserError) as caught:
        nodes(text)
    assert [d.code for d in caught.value.diagnostics] == [code]


def test_alias_bomb_is_refused_before_it_grows() -> None:
    bomb = "a: &a [x]\n" + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(9))
    with pytest.raises(UserError, match="aliases"):
        nodes(bomb)


@pytest.mark.parametrize(("text", "place"), [("a: b\nc: \x00", "2:4"), ("a: 'b\x07'", "1:6"), ("a: b\r\n\r\nc:\x1b", "3:3"), ("a: \ud800", "1:4")])
def test_a_character_that_yaml_does_not_have_is_shown_where_it_is(text: str, place: str) -> None:
    with pytest.raises(UserError, match=r"E0101 not valid YAML: a YAML file holds no character U\+") as error:
        parse_yaml(Source("a.yaml", text))
    assert str(error.value).startswith(f"a.yaml:{place}: ")


SOURCE = Source("a", "x\n" * 9)


def at(line: int) -> UserError:
    return fail("E0107", f"line {line}", Span(SOURCE, line, 1))


def bad(line: int) -> int:
    raise at(line)


def test_attempt_and_settle() -> None:
    findings = Findings()
    assert findings.attempt(0, lambda: 5) == 5
    findings.settle()
    assert findings.attempt(0, lambda: bad(7)) == 0
    findings.note([Diagnostic("E0107", "line 2", Span(SOURCE, 2, 1))])
    with pytest.raises(UserError) as caught:
        findings.settle()
    assert [d.message for d in caught.value.diagnostics] == ["line 2", "line 7"]


def test_gather_runs_all() -> None:
    assert gather(lambda n: n + 1, [1, 2]) == [2, 3]
    with pytest.raises(UserError) as caught:
        gather(lambda n: bad(n) if n % 2 else n, [5, 2, 3])
    assert [d.message for d in caught.value.diagnostics] == ["line 3", "line 5"]


def test_members_that_are_left_out_have_their_default() -> None:
    root = nodes("count: 3\nname: x\non: true\nlist: [1, 2]\n")
    assert (root.number("count"), root.number("absent"), root.number("absent", 7)) == (3, 0, 7)
    assert (root.text("name"), root.text("absent", "y"), root.flag("on"), root.flag("absent")) == ("x", "y", True, False)
    assert [node.value for node in root.entries("list")] == [1, 2]
    assert root.entries("absent") == root.members("absent") == []
