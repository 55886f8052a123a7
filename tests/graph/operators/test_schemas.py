"""ONNX's operators and the defaults of their attributes."""

import pytest

from toolchain.graph.operators.schemas import attribute_default, known_operators


def test_operators_have_no_foreign_ones_among_them() -> None:
    assert {"Conv", "Gelu"} <= set(known_operators())
    assert "TreeEnsemble" not in known_operators()


@pytest.mark.parametrize(
    ("operator", "name", "value"),
    [("Gelu", "approximate", "none"), ("Conv", "group", 1), ("LeakyRelu", "alpha", pytest.approx(0.01)), ("Conv", "strides", None),
     ("Conv", "nothing", None), ("Nothing", "group", None)],
)  # fmt: skip
def test_an_attribute_that_is_left_out(operator: str, name: str, value: object) -> None:
    assert attribute_default(operator, name) == value
