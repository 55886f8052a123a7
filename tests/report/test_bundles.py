"""A region out of a bundle alone. The operations of a bundle's programs, of the bundle alone.

Results beside those that a file expects.
"""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.operations.made import load_machine
from tests.report.measured import region
from tests.runtime import small
from toolchain.report.bundles import HEAD, bundle_operations, expected_lines, modelled_region, timed_regions
from toolchain.report.tables import scaled
from toolchain.runtime.contents import Bundle
from toolchain.spec.arrays import Array
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


SCORES = np.array([[0.0, 3.0], [2.0, 1.0], [5.0, 4.0]], np.float32)
OUTPUTS: dict[str, Array] = {"scores": SCORES, "count": np.arange(3)}


def lines(path: Path, **arrays: Array) -> list[str]:
    np.savez(path / "e.npz", **arrays)
    return list(expected_lines(OUTPUTS, path / "e.npz"))


def test_equal_results_say_so_and_an_undefined_number_is_like_another(tmp_path: Path) -> None:
    assert lines(tmp_path, count=np.arange(3), scores=SCORES) == ["scores: all 6 elements as expected", "count: all 3 elements as expected"]
    np.savez(tmp_path / "n.npz", y=np.array([math.nan, 1.0]))
    assert list(expected_lines({"y": np.array([math.nan, 1.0])}, tmp_path / "n.npz")) == ["y: all 2 elements as expected"]


def test_others_say_how_far_they_are(tmp_path: Path) -> None:
    """A signal of 100 and an error of 1 in energy are 20 dB apart; a single part is the whole."""
    np.savez(tmp_path / "e.npz", y=np.array([[10.0]]))
    assert list(expected_lines({"y": np.array([[9.0]])}, tmp_path / "e.npz")) == [
        "y: 0 of 1 element as expected, the furthest off by 1, its worst part 20.0 dB"
    ]
    (told,) = lines(tmp_path, count=np.array([0, 1, 9]))
    assert told.startswith("count: 2 of 3 elements as expected, the furthest off by 7")


def test_labels_are_counted_by_the_first_output(tmp_path: Path) -> None:
    assert lines(tmp_path, labels=np.array([1, 0, 1])) == ["labels: 66.67 % of 3 samples right by scores"]


@pytest.mark.parametrize(
    ("arrays", "error"),
    [
        ({"x": SCORES}, "E0808 the file has neither an array of an output's name nor 'labels'; outputs: scores, count"),
        ({"scores": SCORES[:2]}, r"E0808 'scores' is float32\[2, 2\], the results are float32\[3, 2\]"),
        ({"count": np.array(["a", "b", "c"])}, "E0808 'count' is <U1"),
        ({"labels": np.array([1, 0])}, "E0808 'labels' is not one whole number for each of 3 samples"),
        ({"labels": np.array([1.0, 0.0, 1.0])}, "E0808 'labels' is not one whole number"),
    ],
)
def test_arrays_that_do_not_fit(arrays: dict[str, Array], error: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=error):
        lines(tmp_path, **arrays)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "e.npz").write_bytes(b"PK nothing")
    with pytest.raises(UserError, match=r"E0808 .*e.npz is not an .npz file of plain arrays"):
        list(expected_lines(OUTPUTS, tmp_path / "e.npz"))
