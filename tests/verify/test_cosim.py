"""Runs as files for a test bench: what a program reads out of them is what the emulator had, and leaves what the files say.

What hardware left, with slips at known places: each is named by its result, its byte and its writer.
"""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.c_networks import recorded
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import new_state
from toolchain.emulator import reference
from toolchain.isa.decode import decode
from toolchain.spec.errors import Source, UserError
from toolchain.verify.cosim import RecordedRun, compare_memory, read_words, run_files, words_text


@given(st.binary(min_size=1, max_size=70), st.sampled_from([1, 2, 4, 8, 16]))
def test_words_read_back(data: bytes, width: int) -> None:
    text = words_text(data, width).decode()
    assert {len(line) for line in text.splitlines()} == {2 * width}
    assert read_words(Source("a.hex", text), len(data)).tobytes() == data


def test_words_are_numbers_of_little_endian_bytes() -> None:
    assert words_text(bytes(range(6)), 4) == b"03020100\n00000504\n"


def test_a_dump_has_comments_and_addresses() -> None:
    text = "// memory of a simulator\n@2 0302_0100 // third word\n@00000000\nFFFFFFFF\n"
    assert read_words(Source("a.hex", text), 12).tobytes() == b"\xff" * 4 + bytes(4) + bytes(range(4))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("00\nxx\n", r"a.hex:2:1: E1119 'xx' is no word of 2 hexadecimal digits; unknown digits"),
        ("00 0000\n", r"a.hex:1:4: E1119 '0000' is no word of 2"),
        ("000\n", r"a.hex:1:1: E1119 '000' is no word of 3"),
        ("@g\n", r"a.hex:1:1: E1119 'g' is no address"),
        ("@\n", r"a.hex:1:1: E1119 '' is no address"),
        ("00\n00\n00\n00\n00\n", r"a.hex:5:1: E1119 this word is past the 4 bytes of the memory"),
        ("@ffffffffffffffffffff\n00\n", r"a.hex:2:1: E1119 this word is past"),
    ],
)  # fmt: skip
def test_other_text_is_refused(text: str, wanted: str) -> None:
    with pytest.raises(UserError) as caught:
        read_words(Source("a.hex", text), 4)
    assert wanted in caught.value.diagnostics[0].render()


@pytest.mark.parametrize("target", ["vta", "dnnvm"])
def test_the_files_are_all_that_a_run_needs(target: str) -> None:
    """The reference engine, with nothing but the files; dnnvm's addresses stand in registers."""
    run = recorded(target)
    machine, files = run.image.program.machine, run_files(run, 8)
    index: dict[str, Any] = json.loads(files["region0.json"])
    program = decode(machine, [files[f"{stream['file']}.bin"] for stream in index["streams"]])
    assert len(program) == index["instructions"]
    memory = index["memory"]
    before, after = (read_words(Source("m.hex", files[f"{memory['file']}.{when}.hex"].decode()), memory["bytes"]) for when in ("before", "after"))
    state = new_state(machine)
    state.memories[memory["name"]][0, : memory["bytes"]] = before
    if run.image.map.registers:
        state.host[run.image.map.registers][:] = index["registers"]
    reference.run(program, state, issue_order(program))
    np.testing.assert_array_equal(state.memories[memory["name"]][0, : memory["bytes"]], after)
    assert not np.array_equal(before, after)
    place = index["outputs"][run.image.map.outputs[0]]
    assert after[place["address"] :][: place["bytes"]].any()
    assert files[f"{memory['file']}.before.bin"] == before.tobytes()


def test_every_segment_lies_in_the_memory_that_is_written() -> None:
    run = recorded("vta")
    assert run.image.map.bytes == len(run.before) == max(s.address + s.bytes for s in run.image.map.segments.values())


@pytest.fixture(scope="module")
def run() -> RecordedRun:
    return recorded("vta")


def test_the_same_bytes_are_no_difference(run: RecordedRun) -> None:
    assert compare_memory(run, run.after.copy()) is None


def test_a_wrong_result_is_found_with_its_writer(run: RecordedRun) -> None:
    held, found = run.image.map, run.after.copy()
    address = held.address_of(held.outputs[0]) + 3
    found[address] ^= 0x40
    difference = compare_memory(run, found)
    assert difference is not None
    assert (difference.address, difference.differing, difference.segment) == (address, 1, "results")
    assert (difference.expected, difference.found) == (run.after[address], found[address])
    assert (difference.tensor, difference.coordinates) == (held.outputs[0], (0, 3, 0, 0))
    assert " STORE at " in difference.writer


def test_the_earliest_writer_is_named_wherever_its_bytes_stand(run: RecordedRun) -> None:
    """A tensor between operations is written before the result, at a higher address."""
    held = run.image.map
    swap = held.segments["swap"]
    changed = np.flatnonzero(run.before != run.after)
    inner = changed[(changed >= swap.address) & (changed < swap.address + swap.bytes)]
    if not len(inner):
        pytest.skip("everything between operations stays on chip")
    found = run.after.copy()
    found[[held.address_of(held.outputs[0]), inner[0]]] ^= 1
    difference = compare_memory(run, found)
    assert difference is not None
    assert (difference.address, difference.segment, difference.differing) == (inner[0], "swap", 2)
    assert difference.tensor == held.outputs[0]


def test_a_constant_that_changed_has_no_writer(run: RecordedRun) -> None:
    found, constants = run.after.copy(), run.image.map.segments["constants"]
    found[constants.address] ^= 1
    difference = compare_memory(run, found)
    assert difference is not None
    assert (difference.writer, difference.segment, difference.tensor) == ("", "constants", "")
