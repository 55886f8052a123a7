"""Where states are between steps follows from the plan: which regions and which host segments read and make them."""

from dataclasses import replace

import pytest

from tests.steps_network import HELD, built
from toolchain.runtime.contents import HostSegment, Manifest, PlanStep, State, step_of
from toolchain.runtime.state_places import StatePlace, is_entering, is_leaving, on_the_host, state_places


def places(target: str, manifest: Manifest | None = None) -> dict[str, StatePlace]:
    executor = built(target).executor()
    return {place.state.input: place for place in state_places(executor.machines, manifest or executor.manifest)}


@pytest.mark.parametrize(("target", "stored"), [("gemmini", HELD), ("vta", HELD), ("dpuv3", 4 * HELD)])
def test_a_state_of_one_region_stays_on_the_device(target: str, stored: int) -> None:
    found = places(target)["h"]
    assert (found.place, found.region, found.bytes, found.moved, found.watched) == ("device", 0, stored, 0, False)


def test_a_state_of_the_host_is_an_array_there() -> None:
    found = places("vta")["count"]
    assert (found.place, found.region, found.bytes, found.moved) == ("host", -1, 8, 0)


def test_a_device_that_keeps_no_tensors_has_it_copied_both_ways() -> None:
    found = on_the_host(places("vta")["h"])
    assert (found.place, found.region, found.moved) == ("stored", -1, 2 * HELD)
    assert on_the_host(found) == found


def test_conversions_are_steps_of_their_own_at_both_ends() -> None:
    manifest = built("vta").bundle.manifest
    runs = [step_of(manifest, step) for step in manifest.plan]
    assert [is_entering(manifest, run) for run in runs] == [True, *[False] * (len(runs) - 1)]
    assert [is_leaving(manifest, run) for run in runs] == [*[False] * (len(runs) - 1), True]


def test_a_state_that_the_host_reads_within_the_step_is_copied_to_it() -> None:
    manifest = built("vta").bundle.manifest
    reader = HostSegment(manifest.hosts[0].model, ("next_h.int8",), ("seen",), {})
    read = replace(manifest, hosts=(*manifest.hosts, reader), plan=(*manifest.plan, PlanStep("host", len(manifest.hosts))))
    found = places("vta", read)["h"]
    assert (found.place, found.watched, found.moved) == ("device", True, HELD)


def test_a_state_that_the_host_reads_before_the_region_is_kept_as_stored() -> None:
    manifest = built("vta").bundle.manifest
    reader = HostSegment(manifest.hosts[0].model, ("h.int8",), ("seen",), {})
    found = places("vta", replace(manifest, hosts=(*manifest.hosts, reader)))["h"]
    assert (found.place, found.moved) == ("stored", 2 * HELD)


def test_a_state_in_floating_point_is_an_array_of_the_host() -> None:
    manifest = built("vta").bundle.manifest
    found = places("vta", replace(manifest, states=(State("h", "next_h", "h", "next_h"),)))["h"]
    assert (found.place, found.bytes, found.moved) == ("host", 4 * HELD, 0)
