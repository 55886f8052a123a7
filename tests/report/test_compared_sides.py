"""A side that knows little compares as one: nothing of it is shared with another. Reports as a build leaves them, and files that are none.
Schedules by key. Machines and bundles as sides."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.report.sides import report
from tests.runtime.small import bundle
from toolchain.report.compared_sides import (
    BUILD,
    LESS,
    MORE,
    NEITHER,
    Side,
    bundle_side,
    machine_keys,
    machine_side,
    report_side,
    schedule_keys,
    schedule_side,
    working_values,
)
from toolchain.runtime.bundle import target_of, write_bundle
from toolchain.schedule.form.files import read_schedule
from toolchain.spec.errors import Source, UserError
from toolchain.spec.load import load_machine

TEXT = """
schedule: {version: 1, region: region0, machine: toy, fingerprint: f00d}
buffers:
  - {tensor: t, memory: acc, bank: 0, address: 0, stored: false}
groups:
  - operations:
      - {operation: 0, name: first, kernel: conv2d, tile: {oh: 4, oc: 1}, slots: {x: [[0, 1], [0, 61]], w: 2}}
  - loop: tiles
    operations:
      - {operation: 1, name: second, kernel: conv2d, tile: {oh: 4}}
      - {operation: 2, name: third, kernel: add, tile: {oh: 4}}
"""


def test_what_is_not_known_is_empty_and_not_shared() -> None:
    one, other = Side("a", BUILD, "t"), Side("a", BUILD, "t")
    assert one == other
    assert (one.machine, one.schedule, one.figures, one.parts) == ({}, {}, {}, ())
    assert one.machine is not other.machine


def test_a_direction_is_the_sign_of_a_gain() -> None:
    assert [direction * 2.0 for direction in (LESS, NEITHER, MORE)] == [-2.0, 0.0, 2.0]


def test_times_and_bytes_are_of_one_image(tmp_path: Path) -> None:
    side = report_side(report(tmp_path, images=4), "r", {})
    found = {name: figure.value for name, figure in side.figures.items()}
    assert (found["images a run"], found["cycles"], found["machine"], found["with the host"]) == (4, 125.0, 0.00125, 0.25)
    assert (found["ddr read"], found["ddr written"], found["fm, most in use"]) == (750.0, 125.0, 2000)
    assert (found["accuracy, emulator"], found["exact"], found["instructions"]) == (90.0, 1, 7)
    (part,) = side.parts
    assert (part.name, part.cycles, part.bytes, part.use, part.noise) == ("conv1", 125.0, 512.0, 50.0, 33.5)
    assert (side.title, side.machine) == ("net on toy", {"params.SIZE": "4"})


def test_a_summary_has_no_noise_yet(tmp_path: Path) -> None:
    data = json.loads(report(tmp_path).read_text())
    del data["noise"]
    path = tmp_path / "summary.json"
    path.write_text(json.dumps(data | {"exact": None, "utilisation": None}))
    side = report_side(path, "s", {})
    assert side.parts[0].noise is None
    assert "exact" not in side.figures


@pytest.mark.parametrize("text", ["", "[]", "{}", "nonsense", "[" * 100_000, '{"model": 3}'])
def test_any_other_file_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(UserError, match="E0007 this is no report of a build"):
        report_side(path, "x", {})


@pytest.mark.parametrize("wrong", [{"images": 0}, {"total_ms": "long"}, {"regions": [{}]}, {"machines": {"toy": {"k": 1}}}])
def test_a_wrong_value_is_refused(wrong: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="E0007"):
        report_side(report(tmp_path, **wrong), "x", {})  # type: ignore[arg-type]


def test_keys_of_several_machines_have_their_names() -> None:
    assert machine_keys({"a": {"k": "1"}, "b": {"k": "2"}}) == {"a: k": "1", "b: k": "2"}
    assert machine_keys({}) == {}


def test_every_choice_has_a_key_of_its_operation() -> None:
    assert schedule_keys({"region0": read_schedule(Source("s.yaml", TEXT))}) == {
        "region0.groups": "first; second, third by tiles",
        "region0.t.kept": "acc, not stored",
        "region0.first.kernel": "conv2d", "region0.first.loops": "oh oc", "region0.first.tile.oh": "4", "region0.first.tile.oc": "1",
        "region0.first.slots.x": "2", "region0.first.slots.w": "2",
        "region0.second.kernel": "conv2d", "region0.second.loops": "oh", "region0.second.tile.oh": "4",
        "region0.third.kernel": "add", "region0.third.loops": "oh", "region0.third.tile.oh": "4",
    }  # fmt: skip


def test_a_file_is_a_side(tmp_path: Path) -> None:
    (tmp_path / "region0.yaml").write_text(TEXT)
    for path in (tmp_path, tmp_path / "region0.yaml"):
        side = schedule_side(path, "s")
        assert (side.kind, side.title, len(side.schedule)) == ("schedule", "region0 for toy", 14)


def test_values_of_a_machine_have_no_notes() -> None:
    found = working_values(load_machine("vta"))
    assert found["params.LOG_BLOCK"] == "4"
    assert found["memories.inp.depths"] == "[2048]"
    assert not [path for path in found if path.startswith(("assumptions", "target.summary")) or path.endswith((".doc", ".source"))]


def test_a_machine_has_its_clock_and_peak() -> None:
    side = machine_side(load_machine("vta:ultra96"), "vta:ultra96")
    assert (side.figures["clock"].value, side.figures["peak"].value) == (333.0, pytest.approx(256 * 0.333))


def test_a_bundle_says_cycles_by_region(tmp_path: Path) -> None:
    held = bundle()
    write_bundle(tmp_path / "x.bundle", held)
    side = bundle_side(tmp_path / "x.bundle", "x")
    regions = held.manifest.regions
    assert [(part.name, part.computes, part.cycles) for part in side.parts] == [(each.name, "region", each.cycles / each.images) for each in regions]
    assert side.title == f"{held.manifest.model} on {held.manifest.targets[0].name}"
    assert side.machine["params.LOG_BLOCK"] == "4"


def test_a_bundle_of_a_known_machine_has_its_times(tmp_path: Path) -> None:
    held = bundle()
    known = target_of(load_machine("vta"))
    manifest = replace(held.manifest, targets=(known,), regions=tuple(replace(each, target="vta") for each in held.manifest.regions))
    write_bundle(tmp_path / "x.bundle", replace(held, manifest=manifest))
    side = bundle_side(tmp_path / "x.bundle", "x")
    assert side.figures["cycles"].value == pytest.approx(sum(part.cycles for part in side.parts))
    assert side.figures["machine"].value == pytest.approx(side.figures["cycles"].value / 100_000)


def test_a_bundle_of_a_machine_that_changed_since_still_has_its_parameters(tmp_path: Path) -> None:
    held = bundle()
    (target,) = held.manifest.targets
    write_bundle(tmp_path / "x.bundle", replace(held, manifest=replace(held.manifest, targets=(replace(target, fingerprint="0" * 64),))))
    side = bundle_side(tmp_path / "x.bundle", "x")
    assert side.machine["target.fingerprint"] == "0" * 64
    assert side.machine["params.LOG_BLOCK"] == "4"
    assert not side.figures
