"""The fingerprint follows what programs depend on, and nothing else.

Machines are told apart by identity.

Answers are made once for each digest, and digests tell apart all that differs.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.slower import slower
from tests.spec.small import small
from toolchain.spec import fingerprint as hashes
from toolchain.spec.expr import Binary, Const, Name, walk
from toolchain.spec.fingerprint import (
    MachineKey,
    MeaningKey,
    Memo,
    array_parts,
    digest_of_parts,
    fingerprint,
    named_params,
    placing_hash,
    section_hashes,
    words_of,
)
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine
from toolchain.spec.render import render


def test_equal_machines_are_different_keys() -> None:
    machine = load_machine("vta")
    assert MachineKey(machine) == MachineKey(machine)
    assert MachineKey(machine) != MachineKey(replace(machine))
    assert MachineKey(machine) != machine


def test_machines_that_differ_in_prices_alone_mean_the_same() -> None:
    machine = load_machine("vta")
    slower_clock = replace(machine, timing=replace(machine.timing, clock_khz=1), host=None, without=("add",))
    assert MeaningKey(slower_clock) == MeaningKey(machine)
    assert hash(MeaningKey(slower_clock)) == hash(MeaningKey(machine))
    for other in (replace(machine, instructions=machine.instructions[:-1]), replace(machine, memories=machine.memories[::-1])):
        assert MeaningKey(other) != MeaningKey(machine)
    assert MeaningKey(machine) != machine
    assert MeaningKey(slower_clock, timed=True) != MeaningKey(machine, timed=True) != MeaningKey(machine)
    assert MeaningKey(replace(machine, host=None), timed=True) == MeaningKey(machine, timed=True)


def test_a_changed_machine_has_a_hash_of_its_own() -> None:
    machine = load_machine("vta")
    assert fingerprint(machine) != fingerprint(replace(machine, name="other"))


SAME = [
    ("policy: fifo", "policy: fair"),
    ("value: 100000", "value: 200000"),
    ('summary: "a small machine', 'summary: "another machine'),
    ("          k = codes[i]", "          k = codes[i]  # one code each"),
    ("launch_us: {value: 10", "launch_us: {value: 11"),
    ("type: code_t, depth: 16", "type: code_t, hazard: warning, depth: 16"),
    ("type: code_t, depth: 16", "type: code_t, transient: true, depth: 16"),
]
STABLE = "e1ccc4ab14b1ad625faccc5454461914870818ef24929f69c8cb6e5b6e273eac"
"""Of the small machine; it may change only together with what a fingerprint means."""
OTHER = [
    ("range: [1, 16]", "range: [1, 32]", False),
    ("value: 4, range", "value: 6, range", True),
    ("match: {opcode: 3}", "match: {opcode: 4}", True),
    ("twice(3)", "twice(2)", True),
    ("type: code_t, depth: 16", "type: code_t, depth: 8", True),
    ("rounding: half_up", "rounding: half_even", True),
    ("writes: [rows, sums]", "writes: [sums, rows]", True),
]


@pytest.mark.parametrize(("old", "new"), SAME)
def test_does_not_change(old: str, new: str) -> None:
    assert fingerprint(small((old, new))) == fingerprint(small())


@pytest.mark.parametrize(("old", "new", "changes"), OTHER)
def test_changes(old: str, new: str, changes: bool) -> None:
    assert (fingerprint(small((old, new))) != fingerprint(small())) == changes


def test_parameters_count_only_where_semantics_name_them() -> None:
    assert fingerprint(small(overrides={"MODE": "exact"})) == fingerprint(small())
    named = ("      for i in range(count):\n          k =", "      for i in range(count + MODE):\n          k =")
    assert fingerprint(small(named, overrides={"MODE": "exact"})) != fingerprint(small(named))


def test_the_text_of_an_elaborated_machine_names_few_parameters() -> None:
    assert named_params(small()) == ()
    assert named_params(small(("      for i in range(count):\n          k =", "      for i in range(count + MODE):\n          k ="))) == ("MODE",)
    assert "SHR" in named_params(load_machine("vta"))
    assert "LOG_BUS" not in named_params(load_machine("vta"))


def test_words_are_whole_names() -> None:
    assert words_of("a_b=LOG_BUS-3\nNOT_LOG_BUS # é x1 1y") == {"a_b", "LOG_BUS", "NOT_LOG_BUS", "x1", "y"}


def test_it_is_stable() -> None:
    assert fingerprint(small()) == STABLE


def test_sections() -> None:
    one, other = section_hashes(small()), section_hashes(small(("value: 100000", "value: 200000")))
    assert {name for name in one if one[name] != other[name]} == {"timing"}


def test_placing_reads_the_clock_the_peak_and_the_fields_that_cycles_depend_on() -> None:
    machine = load_machine("dpuv3")
    timing = machine.timing
    conv = next(c for c in timing.classes if c.name == "conv")
    name = next(e for e in walk(conv.cycles) if isinstance(e, Name))
    for other in (
        replace(timing, clock_khz=timing.clock_khz + 1),
        replace(timing, peak_macs=(timing.peak_macs or 0) + 1),
        replace(timing, classes=timing.classes[1:]),
        *(replace(timing, classes=(*(c for c in timing.classes if c is not conv), replace(conv, **{part: Const(1)}))) for part in ("cycles",)),
        *(
            replace(timing, classes=(*(c for c in timing.classes if c is not conv), replace(conv, **{part: Binary("+", name, Name("height"))})))
            for part in ("setup", "latency")
        ),
        replace(timing, classes=tuple(replace(c, transfers=()) for c in timing.classes)),
    ):
        assert placing_hash(replace(machine, timing=other)) != placing_hash(machine)


def test_how_long_anything_takes_is_nothing_to_placing() -> None:
    for name in ("vta", "dpuv3", "dnnvm"):
        machine = load_machine(name)
        assert placing_hash(slower(machine)) == placing_hash(machine)
        assert section_hashes(slower(machine))["timing"] != section_hashes(machine)["timing"]


def test_a_machine_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every schedule, program and bundle asks for it, and it takes longer than reading a program."""
    rendered: list[Machine] = []

    def counted(machine: Machine, without: frozenset[str]) -> dict[str, Any]:
        rendered.append(machine)
        return render(machine, without)

    monkeypatch.setattr(hashes, "render", counted)
    machine, other = replace(small()), replace(small())
    for _ in range(3):
        assert fingerprint(machine) == STABLE
        assert section_hashes(machine)["sync"] != section_hashes(machine, ordered=True)["sync"]
    assert len(rendered) == 3
    assert fingerprint(other) == STABLE
    assert len(rendered) == 4


def test_an_answer_is_made_once_and_the_oldest_is_forgotten() -> None:
    memo, made = Memo[str](2), list[str]()

    def ask(key: str) -> str:
        def make() -> str:
            made.append(key)
            return key.upper()

        return memo.of(key, make)

    assert [ask(key) for key in "abacab"] == ["A", "B", "A", "C", "A", "B"]
    assert made == ["a", "b", "c", "b"]  # c took the place of b, which was asked for longest ago


def test_nothing_is_kept_without_a_digest_or_of_a_failure() -> None:
    memo, made = Memo[int](2), list[int]()
    for number in range(2):
        memo.of("", lambda number=number: made.append(number) or 0)
    assert made == [0, 1]
    with pytest.raises(ZeroDivisionError):
        memo.of("a", lambda: 1 // 0)
    assert memo.of("a", lambda: 3) == 3


parts = st.lists(st.binary(max_size=3), max_size=3)


@given(parts, parts)
def test_digests_are_equal_for_equal_parts_alone(one: list[bytes], other: list[bytes]) -> None:
    assert (digest_of_parts(one) == digest_of_parts(other)) == (one == other)


def test_arrays_differ_by_name_type_shape_and_elements() -> None:
    given = [
        {"a": np.zeros(4, np.int8)}, {"b": np.zeros(4, np.int8)}, {"a": np.zeros(1, np.int32)}, {"a": np.zeros((2, 2), np.int8)},
        {"a": np.array([0, 0, 0, 1], np.int8)}, {"a": np.array(["x"], object)}, {"a": np.array(["y"], object)},
    ]  # fmt: skip
    digests = [digest_of_parts(array_parts(each)) for each in given]
    assert len({*digests}) == len(given)
    assert digest_of_parts(array_parts({"a": np.array(["x"], object)})) == digests[5]
