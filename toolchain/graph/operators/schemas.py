"""ONNX's own operators as the installed package describes them."""

from typing import Any

import onnx
from onnx import helper


def known_operators() -> list[str]:
    """The names of all operators, sorted."""
    return sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain})


def attribute_default(operator: str, name: str) -> Any:
    """The value of an attribute that a node leaves out, texts as str; None where ONNX has none."""
    known = onnx.defs.get_schema(operator).attributes if onnx.defs.has(operator) else {}
    found = known[name].default_value if name in known else None
    value: Any = helper.get_attribute_value(found) if found is not None and found.type else None
    return value.decode() if isinstance(value, bytes) else value
