"""Whether a node is written as its operator set has it; adapters rely on that, and a newer operator set must not lend a meaning to a fault."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import onnx
from onnx import defs

SINGLE = defs.OpSchema.FormalParameterOption.Single


@dataclass(frozen=True)
class _Form:
    """An operator at an operator set. types: of every attribute, as ONNX names them. single: for each input, whether it must be there."""

    schema: defs.OpSchema
    types: Mapping[str, str]
    required: tuple[str, ...]
    single: tuple[bool, ...]


@cache
def _form(kind: str, version: int) -> _Form:
    schema = defs.get_schema(kind, version, "")
    attributes = schema.attributes
    types = {name: str(attribute.type).rpartition(".")[2] for name, attribute in attributes.items()}
    required = tuple(name for name, attribute in attributes.items() if attribute.required and name != "consumed_inputs")
    return _Form(schema, types, required, tuple(operand.option == SINGLE for operand in schema.inputs))


@cache
def changed(kind: str, version: int, target: int) -> bool:
    """Whether an operator of one operator set has another form, or more types, in a later one.

    A Constant counts as unchanged: ONNX Runtime takes it for a stored tensor and does not ask for its form.
    """
    return kind != "Constant" and defs.get_schema(kind, version, "").since_version != defs.get_schema(kind, target, "").since_version


def fault(node: onnx.NodeProto, version: int) -> str:
    """How a node of ONNX differs from its operator at that operator set; empty where it does not."""
    form = _form(node.op_type, version)
    schema, names = form.schema, [attribute.name for attribute in node.attribute]
    if not schema.min_input <= len(node.input) <= schema.max_input or not schema.min_output <= len(node.output) <= schema.max_output:
        return f"{len(node.input)} inputs and {len(node.output)} outputs do not fit"
    if any(needed and not name for needed, name in zip(form.single, node.input, strict=False)):
        return "an input that is needed has no name"
    for attribute in node.attribute:
        if attribute.name not in form.types:
            return f"the attribute '{attribute.name}' does not belong there"
        if onnx.AttributeProto.AttributeType.Name(attribute.type) != form.types[attribute.name]:
            return f"the attribute '{attribute.name}' is no {form.types[attribute.name]}"
    if len(set(names)) < len(names):
        return "an attribute is given twice"
    missing = [name for name in form.required if name not in names]
    return f"the attribute '{missing[0]}' is missing" if missing else ""
