"""Modelled milliseconds follow from what the machine's file declares, and from nothing else."""

from dataclasses import replace

import pytest

from tests.runtime.small import bundle, network
from tests.steps_network import built
from toolchain.runtime.contents import HostSegment, Work
from toolchain.runtime.emulator_device import EmulatorDevice
from toolchain.runtime.executor import open_bundle
from toolchain.runtime.timing import Modelled, Shares, modelled, modelled_step, region_times, segment_ms
from toolchain.spec.model import Host, Machine, Quantity


def declared(machine: Machine) -> Machine:
    """conv2d 2 GMAC/s, anything else with multiply-accumulates 1, bytes 4 GB/s; launch 3 us, transfers 5 us and 8 GB/s; layouts 16 GB/s."""
    rates = {"conv2d": Quantity(2.0, "test"), "default": Quantity(1.0, "test")}
    host = Host(rates, *(Quantity(value, "test") for value in (4.0, 3.0, 5.0, 8.0)))
    return replace(machine, host=host, layouts=tuple(replace(layout, gb_per_s=Quantity(16.0, "test")) for layout in machine.layouts))


def test_segments_cost_by_kind() -> None:
    machine = declared(network()[0])
    assert machine.host is not None
    work = {"conv2d": Work(1, 4_000_000, 9), "dense": Work(1, 1_000_000, 9), "Relu": Work(3, 0, 8_000_000), "Conv": Work(1, 6_000_000, 9)}
    assert segment_ms(HostSegment("", (), (), work), machine.host) == pytest.approx(2.0 + 1.0 + 2.0 + 3.0)


@pytest.mark.parametrize(("target", "samples"), [("vta", 1), ("dpuv3", 4)])
def test_a_plan_costs_what_its_steps_do(target: str, samples: int) -> None:
    machine, held = declared(network(target)[0]), bundle(target).manifest
    found = modelled({machine.name: machine}, held)
    cycles = sum(region.cycles for region in held.regions)
    moved = [region.map.tensors[port.tensor].bytes for region in held.regions for port in (*region.inputs, *region.outputs)]
    assert (found.samples, found.cycles) == (samples, cycles)
    assert found.execute_ms == cycles / machine.timing.clock_khz
    assert found.launch_ms == pytest.approx(2 * 3e-3)
    assert found.transfer_ms == pytest.approx(sum(5e-3 + size / 8e6 + size / 16e6 for size in moved))
    assert found.host_ms == pytest.approx(samples * sum(work.bytes / 4e6 for segment in held.hosts for work in segment.work.values()))
    assert found.total_ms == pytest.approx(found.execute_ms + found.host_ms + found.transfer_ms + found.launch_ms)
    assert found.sample_ms == found.total_ms / samples


def test_what_is_not_declared_is_not_guessed() -> None:
    held = bundle().manifest
    found = modelled({"vta": replace(network()[0], host=None)}, held)
    assert (found.host_ms, found.transfer_ms, found.launch_ms) == (None, None, None)
    assert found.total_ms == found.execute_ms > 0
    assert modelled({"vta": network()[0]}, replace(held, plan=(), hosts=(), regions=())) == Modelled(1, 0, 0.0, 0, 0, 0)


def test_shares_add_up() -> None:
    both = Shares(1, 2, 3, 4) + Shares(host=1, execute=0.5)
    assert both == Shares(2, 2, 3, 4.5)
    assert both.total == 11.5


def test_a_step_saves_the_conversions_and_copies_of_states_that_stay() -> None:
    executor = built("vta").executor()
    whole, step = executor.modelled(), modelled_step(executor.machines, executor.manifest)
    assert (step.cycles, step.launch_ms) == (whole.cycles, whole.launch_ms)
    host = executor.machine.host
    assert host is not None
    assert (whole.host_ms or 0.0) - (step.host_ms or 0.0) == pytest.approx(sum(segment_ms(executor.manifest.hosts[n], host) for n in (0, -1)))
    times = region_times(executor.machines, executor.manifest)["region0"].copies
    assert step.transfer_ms == pytest.approx((whole.transfer_ms or 0.0) - times["h.int8"] - times["next_h.int8"])


def test_a_step_of_a_model_without_states_is_a_run() -> None:
    executor = open_bundle(bundle(), None, EmulatorDevice())
    assert modelled_step(executor.machines, executor.manifest) == executor.modelled()


def test_rooms_without_an_image_are_not_copied() -> None:
    machine, held = declared(network("stcp920", 4)[0]), bundle("stcp920", 4).manifest
    machines = {machine.name: machine}
    one, two, full = (modelled(machines, held, count) for count in (1, 2, 0))
    assert (one.samples, two.samples, full.samples) == (1, 2, 4)
    assert one.transfer_ms is not None
    assert (two.transfer_ms, full.transfer_ms) == (pytest.approx(2 * one.transfer_ms), pytest.approx(4 * one.transfer_ms))
    assert one.cycles == two.cycles == full.cycles
    assert full == modelled(machines, held)
