"""Parameters: defaults, configurations, overrides as text."""

import pytest

from tests.spec.small import small
from toolchain.spec.errors import UserError


def test_default_configuration_and_override() -> None:
    assert small().params == {"LANES": 4, "MODE": 0, "HALF": 2}
    assert small(config="wide").params == {"LANES": 8, "MODE": 1, "HALF": 4}
    assert small(config="wide", overrides={"LANES": "1 << 1", "MODE": "fast"}).params == {"LANES": 2, "MODE": 0, "HALF": 1}


def test_a_parameter_may_rest_on_an_earlier_one() -> None:
    machine = small(("  MODE: {value: fast", "  TWICE: {value: LANES * 2, range: [LANES, 99]}\n  MODE: {value: fast"), overrides={"LANES": "6"})
    assert machine.params["TWICE"] == 12


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"LANES": "17"}, "parameters:1:7: E0105 LANES = 17 is outside 1..16\nLANES=17\n      ^"),
        ({"LANES": "2 +"}, "parameters:1:7: E0120 cannot read the expression '2 +'\nLANES=2 +\n      ^"),
        ({"LANES": "many"}, "parameters:1:7: E0107 unknown name 'many'\nLANES=many\n      ^"),
        ({"MODE": "fats"}, "parameters:1:6: E0105 MODE is one of fast, exact, not 'fats'; did you mean 'fast'?\nMODE=fats\n     ^"),
        ({"LANE": "1"}, "E0104 unknown parameter 'LANE'; did you mean 'LANES'?"),
        ({"LANES": ""}, "parameters:1:7: E0120 cannot read the expression ''\nLANES=\n      ^"),
        ({"LANES": "5"}, "small.yaml:8:12: E0106 an odd number of lanes\n  - {that: LANES % 2 == 0, message: an odd number of lanes}\n           ^"),
    ],
)
def test_bad_overrides(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UserError) as caught:
        small(overrides=overrides)
    assert str(caught.value) == message


def test_unknown_configuration() -> None:
    with pytest.raises(UserError, match="E0104 unknown configuration 'wild'; did you mean 'wide'"):
        small(config="wild")


def test_every_configuration_is_checked() -> None:
    with pytest.raises(UserError, match=r"E0104 unknown parameter 'LANE'"):
        small(("wide: {LANES: 8, MODE: exact}", "wide: {LANE: 8}"))
