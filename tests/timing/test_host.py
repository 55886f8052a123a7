"""Milliseconds by declared rates."""

from dataclasses import replace

import pytest

from toolchain.graph.work import Work
from toolchain.spec.load import load_machine
from toolchain.spec.model import Host, Quantity
from toolchain.timing.host import copy_ms, operators_ms, work_ms

RATES = {"conv2d": Quantity(2.0, "test"), "dense": Quantity(4.0, "test"), "default": Quantity(1.0, "test")}
HOST = Host(RATES, *(Quantity(value, "test") for value in (4.0, 3.0, 5.0, 8.0)))


@pytest.mark.parametrize(("kind", "ms"), [("conv2d", 4.0), ("Conv", 4.0), ("MatMul", 2.0), ("LSTM", 2.0), ("Einsum", 8.0)])
def test_products_cost_by_their_rate(kind: str, ms: float) -> None:
    assert operators_ms(kind, 8_000_000, 1, HOST) == pytest.approx(ms)
    assert operators_ms(kind, 0, 8_000_000, HOST) == pytest.approx(2.0)


def test_work_costs_as_its_parts_do() -> None:
    work = {"Conv": Work(2, 8_000_000, 1), "Relu": Work(1, 0, 8_000_000)}
    assert work_ms(work, HOST) == pytest.approx(4.0 + 2.0)
    assert work_ms({}, HOST) == 0


def test_a_step_of_a_loop_costs_its_start() -> None:
    work = {"Scan": Work(1, 0, 8_000_000, 500), "LSTM": Work(0, 8_000_000, 1)}
    assert work_ms(work, HOST) == pytest.approx(2.0 + 2.0)
    assert work_ms(work, replace(HOST, step_us=Quantity(6.0, "test"))) == pytest.approx(4.0 + 3.0)


def test_a_copy_costs_a_start_its_bytes_and_its_rearrangement() -> None:
    layout = load_machine("dpuv3").layouts[0]
    assert copy_ms(8_000_000, None, HOST) == pytest.approx(0.005 + 1.0)
    assert copy_ms(8_000_000, replace(layout, gb_per_s=Quantity(2.0, "test")), HOST) == pytest.approx(0.005 + 1.0 + 4.0)
    assert copy_ms(8_000_000, replace(layout, gb_per_s=None), HOST) == pytest.approx(0.005 + 1.0)
