"""Decoding undoes encoding, on every machine; whatever else the bytes are, they are refused with a place."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.coded_machine import coded_machine
from tests.random_fields import MACHINES, random_program
from toolchain.isa.checks import MOST, latched_constraints
from toolchain.isa.decode import decode, scan
from toolchain.isa.encode import encode, encode_program, pattern
from toolchain.isa.program import Program
from toolchain.isa.program_file import read_hex
from toolchain.spec.errors import Source, UserError
from toolchain.spec.expr import Name
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine


def walked(machine: Machine, data: bytes) -> list[tuple[int, int]]:
    """(kind, offset) of every instruction, by the definition."""
    found: list[tuple[int, int]] = []
    at = 0
    while at < len(data) and (not found or machine.instructions[found[-1][0]].name != machine.program.ends):
        bits = int.from_bytes(data[at : at + machine.encoding.longest_bytes], "little")
        fits = [all(bits >> 8 * w & mask == value for w, (mask, value) in pattern(i, 8).items()) for i in machine.instructions]
        found.append((min((k for k, fit in enumerate(fits) if fit), key=lambda k: len(machine.instructions[k].others)), at))
        at += machine.instructions[found[-1][0]].bytes
    return found


@pytest.mark.parametrize("name", MACHINES)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_equals_a_walk(name: str, seed: int) -> None:
    machine = MACHINES[name]
    for number, data in enumerate(random_program(machine, seed, 30).streams):
        if data or machine.streams == 1:
            found = scan(machine, data, number)
            assert list(zip(found.kind.tolist(), found.offset.tolist(), strict=True)) == walked(machine, data)


GOLDEN = sorted((Path(__file__).parents[1] / "data" / "vta_golden").glob("*.npz"))
SEEDS = st.integers(0, 1 << 32)


def same(a: Program, b: Program) -> bool:
    arrays = all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("kind", "stream", "offset", "unit", "row"))
    columns = all(x.keys() == y.keys() and all(np.array_equal(x[f], y[f]) for f in x) for x, y in zip(a.columns, b.columns, strict=True))
    return arrays and columns and a.streams == b.streams


def headlines(machine: Machine, *streams: bytes) -> list[str]:
    with pytest.raises(UserError) as caught:
        decode(machine, streams, "prog.bin")
    return [d.headline() for d in caught.value.diagnostics]


@pytest.mark.parametrize("name", MACHINES)
@settings(max_examples=15, deadline=None)
@given(seed=SEEDS)
def test_decode_undoes_encode(name: str, seed: int) -> None:
    program = random_program(MACHINES[name], seed)
    assert all(column.dtype == np.int64 for own in program.columns for column in own.values())
    assert same(decode(MACHINES[name], program.streams), program)
    assert encode_program(program) == program.streams


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", MACHINES)
@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=3), cut=st.integers(0, 12))
def test_a_changed_program_is_refused_or_encodes_to_itself(name: str, seed: int, changes: list[tuple[float, int]], cut: int) -> None:
    machine = MACHINES[name]
    streams = [bytearray(data) for data in random_program(machine, seed, 8).streams]
    data = max(streams, key=len)
    for where, value in changes:
        if data:
            data[int(where * len(data))] = value
    del data[len(data) - cut :]
    check_any(machine, [bytes(s) for s in streams])


@pytest.mark.parametrize("name", MACHINES)
@settings(max_examples=25, deadline=None)
@given(data=st.binary(max_size=200), zeros=st.integers(0, 40))
def test_random_bytes_are_refused_or_encode_to_themselves(name: str, data: bytes, zeros: int) -> None:
    machine = MACHINES[name]
    check_any(machine, [data + bytes(zeros), *[b""] * (machine.streams - 1)])


def check_any(machine: Machine, streams: Sequence[bytes]) -> None:
    found = attempt(machine, streams)
    if isinstance(found, UserError):
        assert 1 <= len(found.diagnostics) <= MOST + 1
    else:
        assert encode_program(found) == tuple(streams)


def attempt(machine: Machine, streams: Sequence[bytes]) -> Program | UserError:
    try:
        return decode(machine, streams)
    except UserError as error:
        return error


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_golden_programs_encode_to_themselves(path: Path) -> None:
    with np.load(path) as held:
        data = held["insns"].tobytes()
    program = decode(load_machine("vta"), [data])
    assert len(program) == len(data) // 16
    assert encode_program(program) == (data,)


def test_vendor_programs_encode_to_themselves(vendor_streams: Path) -> None:
    paths = sorted(vendor_streams.glob("*.hex"))
    assert len(paths) >= 5
    for path in paths:
        data = read_hex(Source(path.name, path.read_text()))
        assert encode_program(decode(load_machine("dpuv3"), [data])) == (data,)


def test_fields_units_and_offsets() -> None:
    """The coded machine by hand: MOVE right, wait, flags 0b0101, where 0xbeef, step -1, count 3; SET; END; padding."""
    move = 1 | 1 << 3 | 1 << 5 | 5 << 9 | 0xBEEF << 16 | 0x7F << 32 | 2 << 39
    settled = 2 | 15 << 5 | 0x8000 << 16
    data = move.to_bytes(6, "little") + settled.to_bytes(4, "little") + (7).to_bytes(2, "little") + bytes(4)
    program = decode(coded_machine(), [data])
    assert [program.machine.instructions[k].name for k in program.kind] == ["MOVE", "SET", "END"]
    assert program.offset.tolist() == [0, 6, 10]
    assert program.unit.tolist() == [1, 0, 1]
    move_fields = {"opcode": 1, "wait": 1, "post": 0, "side": 1, "mode": 0, "flags": 5, "where": 0xBEEF, "step": -1, "count": 3}
    assert {name: program.field(0, name) for name in move_fields} == move_fields
    assert program.field(1, "kernel") == 16
    assert program.field(1, "shift") == -32768 - 3


def test_a_constraint_on_latched_fields_waits_for_who_knows_them() -> None:
    machine = coded_machine()
    kinds = [machine.instructions[kind].name for kind, _ in latched_constraints(machine)]
    assert kinds == ["MIRROR"]
    columns = [{}, {"side": 0, "where": 0, "count": 200}, {}, {}]
    data = encode(machine, np.array([1, 3]), [{k: np.array([v]) for k, v in own.items()} for own in columns])
    assert len(decode(machine, [data])) == 2


def test_an_empty_stream_is_idle_among_several() -> None:
    machine = coded_machine(cores=3)
    end = (7).to_bytes(2, "little") + bytes(6)
    program = decode(machine, [b"", end, b""])
    assert program.stream.tolist() == [1]
    assert program.queue.tolist() == [3]


def words(machine: Machine, *values: int) -> bytes:
    return b"".join(v.to_bytes(machine.encoding.unit_bytes, "little") for v in values)


def coded_faults() -> dict[str, tuple[Machine, list[bytes]]]:
    one, four = coded_machine(), coded_machine(cores=4)
    end = [7, 0, 0, 0]
    return {
        "empty": (one, [b""]),
        "half a unit": (one, [bytes(3)]),
        "unknown": (one, [words(one, 2, 0, 4, 0)]),
        "unknown second match": (one, [words(one, 1 | 1 << 7, 0, 0, *end[:1])]),
        "cut in an instruction": (one, [words(one, 2, 0, 1)]),
        "cut in the padding": (one, [words(one, 7, 0)]),
        "no end": (one, [words(one, 2, 0)]),
        "trailing word": (one, [words(one, 7, 0, 5, 0)]),
        "too much padding": (one, [words(one, *end, 0)]),
        "unused bits": (one, [words(one, 2 | 1 << 9, 8 << 0, 7 | 1 << 15, 0)]),
        "constraint": (one, [words(one, 1, 0, 9, 7)]),
        "no counter": (one, [words(one, 7 | 1 << 4, 0, 0, 0)]),
        "routing": (
            replace(one, instructions=(replace(one.instructions[0], unit=Name("side")), *one.instructions[1:])),
            [words(one, 1 | 3 << 5, 0, 0x7F, 7)],
        ),
        "number of streams": (four, [b""]),
        "several streams": (four, [b"", words(four, 7 | 1 << 4, 0, 0, 0), words(four, 0), b""]),
        "many": (one, [words(one, *[2 | 1 << 9, 0] * 30, *end)]),
    }


@pytest.mark.parametrize("case", coded_faults())
def test_errors(case: str, golden: Callable[[str, str], None]) -> None:
    golden(f"isa/decode/{case.replace(' ', '_')}.txt", "\n".join(headlines(coded_faults()[case][0], *coded_faults()[case][1])) + "\n")


def test_errors_of_a_machine_with_64_bit_units(golden: Callable[[str, str], None]) -> None:
    vta = load_machine("vta")
    rows, end = np.zeros((7, 16), np.uint8), bytes([3, *[0] * 15])
    rows[:, 0] = [1 << 3, 1, 4, 5, 6, 7, 2]
    rows[0, 1] = 1
    rows[2, 13] = 5 << 4
    rows[6, 7] = 1 << 7
    found = [line for row in rows for line in headlines(vta, row.tobytes() + end)]
    golden("isa/decode/vta.txt", "\n".join([*found, *headlines(vta, rows[2].tobytes()[:8])]) + "\n")
