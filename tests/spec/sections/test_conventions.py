"""Sections numerics, program and host."""

import pytest

from tests.spec.small import small
from toolchain.spec.errors import UserError


def test_container_follows_the_streams() -> None:
    assert small((", container: object", "")).program.container == "object"
    assert small((", container: object", ""), ("count: 2, streams", "count: 1, streams")).program.container == "raw"
    with pytest.raises(UserError, match="E0116 several streams"):
        small(("container: object", "container: raw"))


def test_host_costs_have_sources() -> None:
    host = small().host
    assert host is not None
    assert (host.gmac_per_s["default"].value, host.launch_us.value, host.gb_per_s.source) == (1.5, 10.0, "measured")


@pytest.mark.parametrize("low", ["-129", "128"])
def test_saturation_limits_lie_in_the_type(low: str) -> None:
    with pytest.raises(UserError, match="E0105 low"):
        small(("low: -127", f"low: {low}"))
    with pytest.raises(UserError, match="E0105 low = 5 is above high = 3"):
        small(("low: -127", "low: 5, high: 3"))
