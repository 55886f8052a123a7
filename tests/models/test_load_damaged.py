"""Damaged model files load, or are refused with a message and a place: no crash, no hang, no traceback."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.spec.mutations import damaged
from toolchain.models.build import model_shape_graph
from toolchain.models.load import load_text
from toolchain.spec.errors import Diagnostic, UserError

FOLDER = Path(__file__).resolve().parents[2] / "models"
NAMES = ["mobilenet_v2", "yolov3", "densenet121", "digits", "light_squeezenet"]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_damaged_file(name: str, data: st.DataObject) -> None:
    for found in diagnostics(data.draw(damaged((FOLDER / f"{name}.yaml").read_text()))):
        assert found.code
        assert found.message
        assert found.span or found.place


def diagnostics(text: str) -> tuple[Diagnostic, ...]:
    """What is wrong with a model file; nothing for one that is whole."""
    try:
        model_shape_graph(load_text(text, FOLDER / "damaged.yaml"))
    except UserError as error:
        return error.diagnostics
    return ()


def test_whole_files_are_fine_and_broken_ones_are_not() -> None:
    text = (FOLDER / "digits.yaml").read_text()
    assert not diagnostics(text)
    assert [found.code for found in diagnostics(text.replace("onnx:", "onxn:"))] == ["E0116", "E0108"]


@settings(max_examples=40, deadline=None)
@given(text=st.text(max_size=200))
def test_any_text(text: str) -> None:
    with pytest.raises(UserError):
        load_text(text, Path("any.yaml"))
