"""The positions of bits, and programs that encode refuses; that decode undoes it is tested there."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.coded_machine import coded_machine
from tests.random_fields import MACHINES, random_program
from toolchain.isa.encode import encode, encode_streams, matched_value, offsets, parts, pattern, unused
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import Field


@given(st.integers(0, 120), st.integers(1, 63), st.sampled_from([8, 16, 32, 64]), st.integers(0))
def test_parts_reassemble_any_field(lsb: int, bits: int, word_bits: int, noise: int) -> None:
    found = parts(Field("f", lsb, bits), word_bits)
    value = sum((noise >> (p.word * word_bits) >> p.shift & p.mask) << p.up for p in found)
    assert value == noise >> lsb & ((1 << bits) - 1)
    assert all(p.shift + p.mask.bit_length() <= word_bits for p in found)


@pytest.mark.parametrize("word_bits", [8, 16, 32, 64])
def test_unused_bits_are_those_without_a_field(word_bits: int) -> None:
    gemm = load_machine("vta").instruction["GEMM"]
    free = sum(mask << at * word_bits for at, mask in enumerate(unused(gemm, word_bits)))
    assert free == 1 << 63


def test_a_pattern_joins_all_matched_fields() -> None:
    mirror = coded_machine().instruction["MIRROR"]
    assert pattern(mirror, 16) == {0: (0b1_1000_0111, 0b1_1000_0001)}


def test_matched_values_are_values_not_bits() -> None:
    mirror = coded_machine().instruction["MIRROR"]
    assert matched_value(mirror, mirror.field("mode")) == 3


CODED = coded_machine()
MOVE, SET, END = 0, 2, 3


def column(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def encoded(**fields: np.ndarray) -> bytes:
    """SET, END, in that order, with these columns for SET."""
    return encode(CODED, column(SET, END), [{}, {}, fields, {}])


def test_defaults_and_identifying_fields_may_be_left_out() -> None:
    brief = encoded(kernel=column(3), shift=column(-4))
    assert brief == encoded(opcode=column(2), wait=column(0), post=column(0), kernel=column(3), shift=column(-4))
    assert brief == bytes.fromhex("4200 ffff 0700 0000")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kernel": column(17), "shift": column(0)}, "E0410 #0 SET: field 'kernel' is 17, outside 1..16"),
        ({"kernel": column(0), "shift": column(0)}, "E0410 #0 SET: field 'kernel' is 0, outside 1..16"),
        ({"kernel": column(1), "shift": column(-32772)}, "E0410 #0 SET: field 'shift' is -32772, outside -32771..32764"),
        ({"kernel": column(1), "shift": column(0), "opcode": column(3)}, "E0410 #0 SET: field 'opcode' is 3, outside 2..2"),
        ({"kernel": column(1)}, "E0411 SET: no values for field 'shift'"),
        ({"kernel": column(1, 1), "shift": column(0)}, "E0411 SET: field 'kernel' has 2 values for 1 instructions"),
    ],
)
def test_errors(fields: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(UserError) as caught:
        encoded(**fields)
    assert [d.headline() for d in caught.value.diagnostics] == [message]


def test_the_first_wrong_instruction_is_named() -> None:
    with pytest.raises(UserError, match="E0410 #2 SET: field 'kernel' is 99"):
        encode(
            CODED,
            column(SET, MOVE, SET, END),
            [{"side": column(0), "where": column(0), "count": column(1)}, {}, {"kernel": column(1, 99), "shift": column(0, 0)}, {}],
        )


def test_offsets_count_every_length() -> None:
    starts, total = offsets(CODED, column(SET, MOVE, END))
    assert (starts.tolist(), total) == ([0, 4, 10], 12)


@pytest.mark.parametrize("name", MACHINES)
def test_streams_are_filled_up_and_independent(name: str) -> None:
    machine = MACHINES[name]
    program = random_program(machine, 7)
    streams, starts = encode_streams(machine, program.kind, program.stream, program.columns)
    assert np.array_equal(starts, program.offset)
    assert all(len(data) % machine.encoding.pad_bytes == 0 for data in streams)


def test_a_wrong_value_of_several_streams_is_named_by_its_place_in_its_own() -> None:
    machine = load_machine("stcp920")
    program = random_program(machine, 7)
    kinds = [machine.instructions[kind] for kind in program.kind.tolist()]
    index = next(i for i in reversed(range(len(program))) if any(f.name not in kinds[i].match for f in kinds[i].fields))
    field = next(f for f in kinds[index].fields if f.name not in kinds[index].match)
    columns = [{name: values.copy() for name, values in held.items()} for held in program.columns]
    columns[program.kind[index]][field.name][program.row[index]] = field.high + 1
    place = index - np.searchsorted(program.stream, program.stream[index])
    assert place < index, "an instruction of the first stream"
    with pytest.raises(UserError, match=f"E0410 #{place} {kinds[index].name}: field '{field.name}' is"):
        encode_streams(machine, program.kind, program.stream, columns)
