"""Regions that do not pay, and how that is said."""

from hypothesis import given
from hypothesis import strategies as st

from toolchain.passes.context import Price
from toolchain.passes.placement import Loss, loss_text, pays, read_loss
from toolchain.passes.wishes import KEPT

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
