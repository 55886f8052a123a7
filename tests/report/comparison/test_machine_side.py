"""Machines and bundles as sides."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.runtime.small import bundle
from toolchain.report.comparison.machine_side import bundle_side, machine_side, working_values
from toolchain.runtime.bundle import target_of, write_bundle
from toolchain.spec.load import load_machine


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
