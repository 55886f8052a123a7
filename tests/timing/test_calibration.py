"""The cycle model beside published times of real programs. docs/calibration.md discusses the numbers; the constants are frozen."""

from functools import cache
from pathlib import Path

import pytest

from tests.target_runs import load_golden, timed
from toolchain.isa.decode import decode
from toolchain.isa.program_file import load_program
from toolchain.spec.load import load_machine
from toolchain.timing.simulate import Timeline
from toolchain.timing.usage import UsageSummary, summarise

HAND, PLAIN, PIPELINED = "resnet50_hand.hex", "resnet50_compiled_plain.hex", "resnet50_compiled_pipelined.hex"


@cache
def vendor(path: Path, **limits: str) -> Timeline:
    return timed(load_program(load_machine("dpuv3", overrides=limits), path))


def busy_ms(summary: UsageSummary) -> dict[str, float]:
    return {u.name: u.busy / summary.clock_khz for u in summary.units}


@pytest.mark.parametrize(("name", "conv", "misc"), [(HAND, 7.14, 1.20), (PLAIN, 7.36, 1.22)])
def test_units_are_busy_as_published(vendor_streams: Path, name: str, conv: float, misc: float) -> None:
    busy = busy_ms(summarise(vendor(vendor_streams / name)))
    assert (round(busy["conv"], 2), round(busy["misc"], 2)) == (conv, misc)
    assert round(busy["load"], 2) == 1.50


def test_the_hand_tuned_program_takes_its_published_time(vendor_streams: Path) -> None:
    assert vendor(vendor_streams / HAND).milliseconds == pytest.approx(7.5, rel=0.01)
    assert vendor(vendor_streams / HAND, BANK_PORTS="0").milliseconds == pytest.approx(7.5, rel=0.05)


def test_the_compiled_program_takes_its_published_time(vendor_streams: Path) -> None:
    """It was not at hand when the constants were chosen."""
    assert vendor(vendor_streams / PIPELINED, BANK_PORTS="0").milliseconds == pytest.approx(8.2, rel=0.04)
    assert vendor(vendor_streams / PIPELINED).milliseconds == pytest.approx(8.2, rel=0.07)


@pytest.mark.parametrize("name", [HAND, PLAIN, PIPELINED])
def test_rows_that_pool_and_elew_do_in_a_cycle_change_no_vendor_time(vendor_streams: Path, name: str) -> None:
    assert vendor(vendor_streams / name).cycles == vendor(vendor_streams / name, MISC_ROWS="4").cycles


def test_the_plain_program_overlaps_nothing(vendor_streams: Path) -> None:
    timeline = vendor(vendor_streams / PLAIN)
    busy = busy_ms(summarise(timeline))
    assert timeline.milliseconds == pytest.approx(sum(busy.values()), rel=0.01)


@pytest.mark.parametrize("name", ["conv1_7x7s2.hex", "conv1_pool1_fused.hex", "pool_1x1s2_28x28x256.hex"])
def test_the_other_vendor_programs_run(vendor_streams: Path, name: str) -> None:
    summary = summarise(vendor(vendor_streams / name))
    assert summary.bound_cycles < summary.cycles < 2.5 * summary.bound_cycles


def test_vta_moves_8_bytes_a_cycle_and_computes_a_vector_a_cycle() -> None:
    """A 3x3 convolution with two contexts: never faster than its steps, and its loads overlap with them."""
    path = Path(__file__).parents[1] / "data" / "vta_golden" / "c00_conv3x3_s1.npz"
    timeline = timed(decode(load_machine("vta"), [load_golden(path)]))
    summary = summarise(timeline)
    steps = {u.name: u.busy for u in summary.units}
    assert summary.cycles < sum(steps.values())
    port = next(r for r in summary.resources if r.name == "read_port")
    assert port.bytes == sum(m.read_bytes for m in summary.memories if m.name == "dram")
    assert steps["load"] + steps["compute"] >= port.bytes / 8
