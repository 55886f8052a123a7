"""Schedules that cannot be: one line each, with the place in the file, and never a traceback."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from tests.schedule.form.edits import FREE, compiled, edited, operation, read, text_of
from tests.schedule.groups.tall_regions import scheduled, short_machine
from tests.schedule.groups.test_search import CHAINS
from tests.schedule.test_compile_region import block
from tests.yaml_text import loaded
from toolchain.schedule.compile_region import compile_region, find_schedule
from toolchain.schedule.form.files import write_schedule
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.spec.errors import UserError

LAST = "tile: {n: 1, oc: 1, oh: 8, ow: 20}\n        slots: {bias: 1, w: 1, y: [[0, 40], [8, 20]]}"
FAULTS = {
    "no yaml": ("groups:", "groups: ["),
    "another version": ("version: 1", "version: 2"),
    "another region": ("region: block", "region: region7"),
    "another machine": ("machine: dpuv3", "machine: vta"),
    "another fingerprint": ("fingerprint: ", "fingerprint: 0"),
    "unknown key": ("kernel: add", "kernal: add"),
    "no groups": (text_of("free")[text_of("free").index("groups:") :], "groups: []\n"),
    "a size of no kind": ("oh: 20", "oh: all"),
    "a negative size": ("oh: 20", "oh: -1"),
    "no such operation": ("operation: 2", "operation: 4"),
    "an operation twice": ("operation: 1\n        name: c1", "operation: 0\n        name: c0"),
    "another name": ("name: sum", "name: add"),
    "two in a group": ("  - operations:\n      - operation: 2", "      - operation: 2"),
    "no such kernel": ("kernel: add", "kernel: ad"),
    "a kernel for another kind": ("kernel: add", "kernel: conv2d"),
    "a kernel that cannot": ("kernel: conv2d", "kernel: squares"),
    "no such dimension": ("{n: 1, oc: 1", "{n: 1, k: 1, oc: 1"),
    "a dimension is missing": ("tile: {n: 1, oc: 1, oh: 20, ow: 20}", "tile: {n: 1, oc: 1}"),
    "a size of more than all": ("oh: 20", "oh: 21"),
    "no multiple": ("oc: 1, oh: 16", "oc: 1, oh: 12"),
    "no loop to turn round": ("tile: {n: 1, oc: 1, oh: 20, ow: 20}", "tile: {n: 1, oc: 1, oh: 20, ow: 20}\n        backward: [oh, iw]"),
    "no such place": (LAST, LAST.replace("bias: 1", "bais: 1")),
    "slots of what stays": ("oh: 20, ow: 20}", "oh: 20, ow: 20}\n        slots: {x: 2}"),
    "no pool": (LAST, LAST.replace("[8, 20]", "[4, 10]")),
    "outside": (LAST, LAST.replace("[8, 20]", "[8, 8190]")),
    "on a buffer": (LAST, LAST.replace("[8, 20]", "[16, 50]")),
    "slots overlap": (LAST, LAST.replace("[8, 20]", "[0, 52]")),
    "addresses where none are": (LAST, LAST.replace("w: 1", "w: [[0, 0]]")),
    "too many slots": (LAST, LAST.replace("w: 1", "w: 1000000000")),
    "too few elements": (LAST, LAST.replace("y: [[0, 40], [8, 20]]", "y: 2") + "\n        within: {fm: [{bank: 0, start: 0, depth: 9}]}"),
    "within another memory": (LAST, LAST + "\n        within: {pm: [{bank: 0, start: 0, depth: 100}]}"),
    "within what is taken": (LAST, LAST + "\n        within: {fm: [{bank: 16, start: 0, depth: 100}]}"),
    "no such tensor": ("tensor: b", "tensor: bb"),
    "an input stays": ("tensor: b", "tensor: x"),
    "a buffer twice": ("tensor: b", "tensor: a"),
    "another memory": ("tensor: b, memory: fm", "tensor: b, memory: pm"),
    "a buffer in no pool": ("tensor: b, memory: fm, bank: 16", "tensor: b, memory: fm, bank: 17"),
    "a buffer too far up": ("bank: 16, address: 60", "bank: 16, address: 4090"),
    "buffers overlap": ("bank: 16, address: 60", "bank: 16, address: 59"),
}  # fmt: skip


def told(name: str) -> str:
    old, new = FAULTS[name]
    text = text_of("free")
    assert old in text, name
    with pytest.raises(UserError) as caught:
        compiled("free", text.replace(old, new, 1))
    return str(caught.value)


def test_every_fault_in_its_line(golden: Callable[[str, str], None]) -> None:
    golden("schedule/faults.txt", "".join(f"## {name}\n{told(name)}\n" for name in FAULTS))


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_has_a_place(name: str) -> None:
    assert told(name).startswith("mine.yaml:")


def test_an_operation_comes_after_what_it_reads() -> None:
    def swap(data: dict[str, Any]) -> None:
        data["groups"][1:3] = data["groups"][2:0:-1]

    with pytest.raises(UserError, match=r"mine.yaml:\d+:\d+: E1403 'sum' reads 'b' before it is made"):
        compiled("free", edited(text_of("free"), swap))


def test_a_result_is_stored() -> None:
    region = replace(block(20), outputs=("out", "b"))
    text = write_schedule(find_schedule(FREE, load_kernels(FREE), region))
    assert "stored: true" in text
    with pytest.raises(UserError, match=r"mine.yaml:\d+:\d+: E1404 'b' is needed in DRAM as well"):
        compiled("free", text.replace("stored: true", "stored: false"), region)


def test_tiles_without_end_are_refused() -> None:
    region = block(2048)
    text = write_schedule(find_schedule(FREE, load_kernels(FREE), region))

    def tiny(data: dict[str, Any]) -> None:
        operation(data, 1)["tile"] |= {"oh": 8, "ow": 1}
        operation(data, 2)["tile"] |= {"oh": 4, "ow": 1}
        for number in (1, 2):
            operation(data, number).pop("slots", None)

    with pytest.raises(UserError, match=r"mine.yaml:\d+:\d+: E1405 the region has \d+ tiles, 1048576 of them of 'sum'; at most 1048576"):
        compiled("free", edited(text, tiny), region)


def test_sums_are_innermost() -> None:
    text = text_of("vta").replace("oc: 1, ic: 1}", "ic: 1, oc: 1}", 1)
    with pytest.raises(UserError, match="E1405 'ic' reduces, so its loop stands inside that of 'oc'"):
        compiled("vta", text)


RINGS: dict[str, Callable[[dict[str, Any]], object]] = {
    "a ring in another memory": lambda data: data["buffers"][0].update(tensor="t1", memory="none"),
    "a pitch below a line": lambda data: data["buffers"][0].update(pitch=3),
    "a pitch above all": lambda data: data["buffers"][0].update(pitch=5000),
    "a ring that begins outside": lambda data: data["buffers"][0].update(address=128),
    "a ring of lines that find no room": lambda data: data["buffers"][0].update(lines=90),
    "a ring that ends in the midst of what is read": lambda data: (
        data["groups"][0]["loads"][0].update(lines=3, pitch=6, address=80),
        [b.update(lines=3, pitch=6, address=20 * k) for k, b in enumerate(data["buffers"])],
    ),
    "an overlap of more than half a ring": lambda data: data["buffers"][0].update(lines=5, overlap=3, pitch=6),
    "a ring that begins behind its end": lambda data: data["buffers"][0].update(lines=5, late=5, pitch=6),
    "an overlap of a ring without an end": lambda data: data["buffers"][0].update(overlap=1),
    "a late beginning of a load without an end": lambda data: data["groups"][0]["loads"][0].update(late=1),
    "an overlap that is too small": lambda data: (
        data["groups"][0]["loads"][0].update(lines=4, overlap=1, pitch=6, address=100),
        [b.update(lines=4, overlap=2, pitch=6, address=25 * k) for k, b in enumerate(data["buffers"])],
    ),
    "a ring that is too short": lambda data: data["buffers"][0].update(pitch=64),
    "a ring of several groups": lambda data: data.update(groups=[{"operations": [operation(data, number)]} for number in range(5)]),
    "a ring beside a buffer": lambda data: data["buffers"][1].pop("pitch"),
    "other loops around the rows": lambda data: operation(data, 0).update(tile={"n": 1, "ow": 3, "oh": 8, "oc": 1}, slots={}),
    "slots on those of another operation": lambda data: (
        data["groups"][0].pop("loads"),
        operation(data, 0).update(slots={"x": operation(data, 4)["slots"]["y"]}),
    ),
    "a load of a tensor of its own": lambda data: data["groups"][0]["loads"][0].update(tensor="t1"),
    "a load of no tensor": lambda data: data["groups"][0]["loads"][0].update(tensor="t7"),
    "a load twice": lambda data: data["groups"][0]["loads"].append(data["groups"][0]["loads"][0]),
    "a load without rows": lambda data: data["groups"][0]["loads"][0].update(rows=0),
    "a load of half a line": lambda data: data["groups"][0]["loads"][0].update(rows=12),
    "a load into a ring that is too short": lambda data: data["groups"][0]["loads"][0].update(rows=400),
    "a load of what stays as a whole": lambda data: (data["groups"][0]["loads"][0].update(tensor="t0"), data["buffers"][0].pop("pitch")),
    "a load into another memory": lambda data: data["groups"][0]["loads"][0].update(memory="pm"),
    "a load whose lines overlap": lambda data: data["groups"][0]["loads"][0].update(pitch=3),
}


@cache
def grouped() -> str:
    """The schedule of a group with rings and loads."""
    return write_schedule(scheduled(CHAINS["residual"]))


def ring_fault(name: str) -> str:
    """The message for an edited schedule of a group."""
    region, data = CHAINS["residual"], loaded(grouped())
    RINGS[name](data)
    text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in data.items())
    with pytest.raises(UserError) as caught:
        compile_region(*short_machine(), region, None, read(text))
    return str(caught.value)


def test_every_fault_of_a_group(golden: Callable[[str, str], None]) -> None:
    golden("schedule/group_faults.txt", "".join(f"## {name}\n{ring_fault(name).splitlines()[0]}\n" for name in RINGS))
