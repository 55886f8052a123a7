"""A region out of a bundle alone. The operations of a bundle's programs, of the bundle alone."""

from dataclasses import replace

import numpy as np
import pytest

from tests.operations.made import load_machine
from tests.report.measured import region
from tests.runtime import small
from toolchain.report.bundle_programs import HEAD, bundle_operations, modelled_region, timed_regions
from toolchain.report.tables import scaled
from toolchain.runtime.contents import Bundle
from toolchain.spec.errors import UserError


def test_it_is_the_program_that_was_compiled() -> None:
    compiled = small.network()[2]["region0"]
    found = region()
    assert found.timeline.program.streams == compiled.program.streams
    assert found.operations == ("conv1", "conv2")
    assert found.owner.tolist() == compiled.origins.operation.tolist()
    assert [node.name for node in found.legend.nodes] == ["conv1", "conv2"]
    assert "conv2 compute" in {label.rsplit(" ", 1)[0] if label.count(" ") > 1 else label for label in found.legend.label}


def test_instructions_are_numbered_in_their_stream() -> None:
    found = region()
    count = len(found.timeline.program)
    assert [found.instruction(0, 0), found.instruction(0, count - 1)] == [0, count - 1]
    assert [found.instruction(0, count), found.instruction(1, 0)] == [-1, -1]
    assert np.array_equal(found.timeline.program.stream, np.zeros(count))


def test_only_programs_are_timed() -> None:
    bundle = small.bundle()
    assert list(timed_regions(bundle, {"vta": load_machine("vta")})) == ["region0", "region1"]


def test_a_schedule_that_numbers_no_operations_is_refused() -> None:
    bundle = small.bundle()
    first = bundle.manifest.regions[0]
    members = bundle.members | {first.schedule: bundle.members[first.schedule].replace(b"operation: 1", b"operation: 900000000")}
    with pytest.raises(UserError, match="E1110 the schedule of 'region0' does not number its operations from 0 on"):
        modelled_region(Bundle(bundle.manifest, members), first, load_machine("vta"), "small.bundle")


def test_lines_are_in_the_order_in_which_operations_start_and_count_all_instructions() -> None:
    bundle, machines = small.bundle(), {"vta": load_machine("vta")}
    lines = bundle_operations(bundle, machines, "small.bundle").splitlines()
    assert lines[0].split() == " ".join(HEAD).split()
    rows = [line.split() for line in lines[1 : lines.index("")]]
    starts = [float(row[4].replace(",", "")) for row in rows if row[0] == "region0"]
    assert starts == sorted(starts)
    owner = region().owner
    assert {row[1]: int(row[3]) for row in rows if row[0] == "region0"} == {
        name: int((owner == number).sum()) for number, name in enumerate(region().operations)
    }


def test_bytes_of_operations_and_memories_are_those_of_the_program() -> None:
    """Every instruction that moves bytes from or to DRAM belongs to an operation."""
    bundle, prints = small.bundle(), region().timeline.footprints
    lines = bundle_operations(bundle, {"vta": load_machine("vta")}, "small.bundle").splitlines()
    dram = prints.program.machine.memories.index(prints.program.machine.memory[bundle.manifest.regions[0].map.memory])
    read, written = int(prints.traffic_read[:, dram].sum()), int(prints.traffic_written[:, dram].sum())
    room = next(line for line in lines[lines.index("") + 2 :] if line.split()[:2] == ["region0", prints.program.machine.memories[dram].name])
    assert " ".join(room.split()[2:]) == f"{scaled(read, 'B')} {scaled(written, 'B')}"
    owned = region().owner >= 0
    assert int((prints.traffic_read + prints.traffic_written)[owned, dram].sum()) == read + written


def test_a_bundle_without_programs_says_so() -> None:
    bundle = small.bundle()
    hosts = replace(bundle, manifest=replace(bundle.manifest, regions=()))
    assert bundle_operations(hosts, {"vta": load_machine("vta")}, "small.bundle") == "no programs of instructions\n"
