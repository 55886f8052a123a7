"""Variables that do not go with the states of a model are refused before anything starts."""

from pathlib import Path

import pytest

from tests.steps_network import YAML, written
from toolchain.spec.errors import UserError
from toolchain.tasks.plan import make_plan
from toolchain.tasks.states import states_span


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"target": "vta,dpuv3"}, "steps.yaml:3:1: E0816 several machines in 'target' do not go with the states of 'steps'"),
        ({"lengths": "a:1,2"}, "steps.yaml:3:1: E0816 'lengths' does not go with the states of 'steps'"),
        ({"beyond": "host"}, "E0816 'beyond' does not go with"),
        ({"batch": "4"}, "E0816 'batch' does not go with"),
        ({"images": "1"}, "E0816 'images' does not go with"),
    ],
)
def test_variables_beside_states(tmp_path: Path, given: dict[str, str], message: str) -> None:
    with pytest.raises(UserError) as raised:
        make_plan({"target": "vta", "model": str(written(tmp_path)), **given}, tmp_path / "build")
    assert message in str(raised.value)


def test_the_place_of_states_in_a_file(tmp_path: Path) -> None:
    span = states_span(written(tmp_path))
    assert span is not None
    assert (span.line, span.column) == (3, 1)
    assert states_span(tmp_path / "steps.onnx") is None
    assert states_span(written(tmp_path, YAML[: YAML.index("state:")] + "calibration: {seeded: 3} # state: none\n")) is None
