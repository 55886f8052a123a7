"""The roofline: dots by the operations' own numbers, none drawn above the roof where its rate is below, none without a peak."""

from dataclasses import replace

import pytest

from toolchain.report.region_use import OperationUse, RegionUse
from toolchain.report.studio.roofline import roofline
from toolchain.spec.load import load_machine

USES = (OperationUse("wide", "conv2d", 4, 900.0, "compute", 1000.0, 200_000, 4000), OperationUse("sum", "add", 2, 10.0, "compute", 9.0, 0, 64))
REGION = RegionUse("region0", "vta", 1, 6, 1010.0, 900.0, "unit compute", USES, (), (), 1, 256)


def test_a_dot_has_its_operations_numbers() -> None:
    found = roofline(load_machine("vta"), [REGION])
    assert found
    assert (found.peak, found.bytes) == (256, 8)
    (dot,) = found.dots
    assert (dot.operation, dot.intensity, dot.rate) == ("wide", 50.0, 200.0)


def test_ticks_double_and_dots_stand_between_them() -> None:
    found = roofline(load_machine("vta"), [REGION])
    assert found
    ticks = {tick.text: tick.at for tick in found.across}
    assert ticks["32"] < found.dots[0].x < ticks["64"]
    up = {tick.text: tick.at for tick in found.up}
    assert up["256"] < found.dots[0].y < up["128"]


@pytest.mark.parametrize("uses", [(), (USES[1],)])
def test_there_is_none_without_multiplications(uses: tuple[OperationUse, ...]) -> None:
    assert roofline(load_machine("vta"), [replace(REGION, operations=uses)]) is None


def test_there_is_none_without_a_peak() -> None:
    machine = load_machine("vta")
    assert roofline(replace(machine, timing=replace(machine.timing, peak_macs=None)), [REGION]) is None
