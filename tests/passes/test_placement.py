"""Which nodes a user keeps, and what is said of regions that do not pay."""

import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.passes.context import Price
from toolchain.passes.placement import KEPT, Loss, is_kept, loss_text, pays, read_loss

TIMES = st.floats(1e-6, 1e6).map(lambda ms: float(f"{ms:.3g}"))


@given(st.builds(Loss, st.integers(1, 500), st.text(max_size=20), TIMES, TIMES))
def test_a_loss_is_read_back_from_its_reason(loss: Loss) -> None:
    assert read_loss(loss_text(loss)) == loss


def test_other_reasons_are_no_losses() -> None:
    assert read_loss(KEPT) is None
    assert read_loss(f"{loss_text(Loss(1, 'a', 1.0, 1.0))}; {KEPT}") is None


def test_a_region_pays_where_it_saves_time() -> None:
    assert pays(Price(host=3.0, machine=1.0, border=1.9))
    assert not pays(Price(host=3.0, machine=1.0, border=2.0))


@pytest.mark.parametrize(("pattern", "kept"), [("head/*", True), ("Conv", True), ("Con", False), ("head", False), ("head/?", True)])
def test_a_user_keeps_nodes_by_name_or_operator(pattern: str, kept: bool) -> None:
    assert is_kept(ir.node("Conv", [], name="head/1", num_outputs=1), [pattern]) is kept
