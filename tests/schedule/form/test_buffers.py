"""Tensors in a memory of several streams: moved by hand they stay exact, in an instance that not all streams have they are refused."""

from collections.abc import Callable

from tests.schedule.form.edits import Edit, edited, read
from tests.schedule.form.test_shares import four, refused
from tests.schedule.many_cores import chip
from tests.schedule.test_compile_region import proven, three_convolutions
from toolchain.schedule.compile_region import compile_region, find_schedule
from toolchain.schedule.form.files import write_schedule
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options

FAULTS: dict[str, Edit] = {
    "twice": lambda held: held["buffers"].append(dict(held["buffers"][0])),
    "stored": lambda held: held["buffers"][0].update(stored=True),
    "a ring": lambda held: held["buffers"][0].update(pitch=40),
    "another bank": lambda held: held["buffers"][0].update(bank=1),
    "outside": lambda held: held["buffers"][0].update(address=2020),
    "on another": lambda held: held["buffers"][1].update(address=35),
    "a result": lambda held: held["buffers"][0].update(tensor="y"),
}


def test_tensors_between_operations_stand_in_the_memory_of_all_their_streams() -> None:
    machine, region, text = four()
    compiled = compile_region(machine, load_kernels(machine), region, None, read(text))
    assert [compiled.map.memory_of(name) for name in "xtuy"] == [("ddr", 0), ("llb", 0), ("llb", 0), ("ddr", 0)]
    assert compiled.map.segments["swap"].bytes == 0
    assert compiled.peak["llb"] == 2 * 36


def test_a_buffer_can_be_moved_and_left_out() -> None:
    machine, region, text = four()

    def edit(held: dict[str, list[dict[str, object]]]) -> None:
        held["buffers"][0].update(address=1000)
        del held["buffers"][1]

    compiled = compile_region(machine, load_kernels(machine), region, None, read(edited(text, edit)))
    assert compiled.map.memory_of("u") == ("ddr", 0)
    assert compiled.map.tensors["t"].offset == 1000 * 32
    assert all(proven(compiled, machine, seed) for seed in (None, 1))


def test_each_cluster_has_one_of_its_own() -> None:
    machine, region = chip(2, 2), three_convolutions(6)
    kernels = load_kernels(machine)
    assert not find_schedule(machine, kernels, region, Options(streams=3, timed_streams=False)).buffers
    text = write_schedule(find_schedule(machine, kernels, region, Options(streams=2, timed_streams=False)))
    shares = [group.streams for group in read(text).groups]

    def second(held: dict[str, list[dict[str, object]]]) -> None:
        for entry, group in zip(held["groups"], shares, strict=True):
            entry["streams"] = [[2 + stream, tiles] for stream, tiles in group]

    compiled = compile_region(machine, kernels, region, None, read(edited(text, second)))
    assert compiled.map.memory_of("t") == ("llb", 1)
    assert all(proven(compiled, machine, seed) for seed in (None, 1))

    def apart(held: dict[str, list[dict[str, object]]]) -> None:
        held["groups"][1]["streams"] = [[2 + stream, tiles] for stream, tiles in shares[1]]

    told = refused(machine, region, lambda: read(edited(text, apart)))
    assert "E1404 't' cannot stay on chip: streams with a 'llb' of their own make or read it; without an entry it goes through DRAM" in told


def test_every_fault_in_its_line(golden: Callable[[str, str], None]) -> None:
    machine, region, text = four()
    told = {name: refused(machine, region, lambda edit=edit: read(edited(text, edit))) for name, edit in FAULTS.items()}
    golden("schedule/shared_faults.txt", "".join(f"## {name}\n{text}\n" for name, text in told.items()))
