"""Recurrent layers in two: one product of all steps' inputs, and a loop whose steps multiply the state alone.

The body of the loop is the layer itself with one step, whose bias is that step's row of the product: gates, activations and clipping are those of the
host's own operator. A bias is of a whole batch, so this is for sequences of one sample.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from toolchain.graph.rewrite import Array, add_constant, constant, fresh_name, integer, is_operator, shape_of, text
from toolchain.graph.work import RECURRENT, Recurrence, recurrence_of

RECURRENCE = "tilewright.recurrence"
"""Metadata of a loop: the layer whose steps it makes, as JSON with `operator`, `name`, `outputs` by name, and `attributes`."""
STATES = {"LSTM": 2, "GRU": 1, "RNN": 1}
"""Tensors that a step hands to the next one."""
INITIAL, PEEPHOLES = 5, 7
"""Operands: the first of the initial states; an LSTM's weights from its cell to its gates."""
BY_ACTIVATION = ("activation_alpha", "activation_beta")


@dataclass(frozen=True)
class RecurrentLayer:
    """weights: [directions, gates * hidden, size]. states: [directions, gates * hidden, hidden]. biases: of the products with the inputs and with the
    states, [directions, gates * hidden] each; None for none. peepholes: [directions, 3 * hidden]. sizes: of the node's."""

    node: ir.Node
    x: ir.Value
    weights: Array
    states: Array
    biases: tuple[Array, Array] | None
    peepholes: Array | None
    sizes: Recurrence

    @property
    def reversed(self) -> tuple[bool, ...]:
        """By direction, whether it begins at the last step."""
        return {"forward": (False,), "reverse": (True,)}.get(text(self.node, "direction", "forward"), (False, True))

    @property
    def outputs(self) -> tuple[ir.Value, ...]:
        return tuple(self.node.outputs)


def layer_of(node: ir.Node) -> RecurrentLayer | None:
    """None for other operators, and where the layer is no float32 sequence of one sample with known weights whose whole length counts."""
    sizes = recurrence_of(node)
    if sizes is None or sizes.rows != sizes.steps or sizes.steps < 2 or integer(node, "layout", 0):
        return None
    given = [*node.inputs, *(None,) * (PEEPHOLES + 1 - len(node.inputs))]
    x, weights, states = given[0], constant(given[1]), constant(given[2])
    if x is None or x.is_initializer() or x.dtype != ir.DataType.FLOAT or weights is None or states is None:
        return None
    bias, peepholes = constant(given[3]), constant(given[PEEPHOLES])
    if any(value is not None and found is None for value, found in ((given[3], bias), (given[PEEPHOLES], peepholes))):
        return None
    if not _whole(given[4], sizes.steps) or (sizes.directions > 1 and any(name in node.attributes for name in BY_ACTIVATION)):
        return None
    biases = None if bias is None else (bias[:, : sizes.gates], bias[:, sizes.gates :])
    return RecurrentLayer(node, x, weights, states, biases, peepholes, sizes)


def _whole(lengths: ir.Value | None, steps: int) -> bool:
    """Whether every sequence is as long as the tensor."""
    known = constant(lengths)
    return lengths is None or (known is not None and bool(np.all(known == steps)))


def loops_of(graph: ir.Graph, layer: RecurrentLayer, products: ir.Value) -> list[ir.Node]:
    """A loop for each direction, not yet in the graph; the first is called as the layer.

    products: of all steps' inputs, [1, steps, directions * gates * hidden].
    Each makes its last states, [1, 1, hidden], and all steps' states, [steps, 1, 1, hidden].
    """
    told = {
        "operator": layer.node.op_type,
        "name": layer.node.name or "",
        "outputs": [value.name or "" for value in layer.outputs],
        "attributes": {name: attribute.value for name, attribute in layer.node.attributes.items()},
    }
    starts = _initial_states(graph, layer)
    return [_loop(graph, layer, products, number, starts[number], json.dumps(told)) for number in range(layer.sizes.directions)]


def _initial_states(graph: ir.Graph, layer: RecurrentLayer) -> list[list[ir.Value]]:
    """By direction, each [1, 1, hidden]; those that are computed are split in front of the layer."""
    node, found = layer.node, list[Sequence[ir.Value]]()
    for number in range(INITIAL, INITIAL + STATES[node.op_type]):
        value = node.inputs[number] if number < len(node.inputs) else None
        shape = (layer.sizes.directions, 1, layer.sizes.hidden)
        known = np.zeros(shape, np.float32) if value is None else constant(value)
        if known is not None:
            found.append([add_constant(graph, f"{node.name}.start", known[each : each + 1]) for each in range(shape[0])])
        elif value is not None:
            found.append([value] if shape[0] == 1 else _parted(graph, node, number))
    return [list(each) for each in zip(*found, strict=True)]


def _parted(graph: ir.Graph, node: ir.Node, number: int) -> Sequence[ir.Value]:
    """By direction, an operand by its number: an LSTM may have one tensor as both of its states."""
    value = _given(node, number)
    directions, *rest = shape_of(value)
    name = fresh_name(graph, f"{node.name}.start.{number}")
    made = ir.node("Split", [value], {"axis": 0, "num_outputs": directions}, name=name, num_outputs=directions)
    for number, part in enumerate(made.outputs):
        part.name, part.shape, part.type = fresh_name(graph, f"{name}.{number}"), ir.Shape([1, *rest]), value.type
    graph.insert_before(node, made)
    return made.outputs


def _loop(graph: ir.Graph, layer: RecurrentLayer, products: ir.Value, number: int, starts: Sequence[ir.Value], told: str) -> ir.Node:
    node, sizes, backwards = layer.node, layer.sizes, int(layer.reversed[number])
    name = fresh_name(graph, f"{node.name}.reverse") if number else node.name or ""
    attributes = {"num_scan_inputs": 1, "scan_input_axes": [1], "scan_input_directions": [backwards], "scan_output_directions": [backwards]}
    body = ir.AttrGraph("body", _body(graph, layer, number, name, len(starts)))
    made = ir.node("Scan", [*starts, products], {**attributes, "body": body}, name=name, num_outputs=len(starts) + 1)
    for place, value in enumerate(made.outputs):
        value.name, value.type = fresh_name(graph, f"{name}.loop.{place}"), ir.TensorType(ir.DataType.FLOAT)
        value.shape = ir.Shape([1, 1, sizes.hidden] if place < len(starts) else [sizes.steps, 1, 1, sizes.hidden])
    made.metadata_props.update({**node.metadata_props, RECURRENCE: told})
    return made


def _body(graph: ir.Graph, layer: RecurrentLayer, number: int, name: str, states: int) -> ir.Graph:
    """One step: the layer with one step whose input is zero, and whose bias has the products with the true input.

    It reads its constants from the graph around it, where they are stored once.
    """
    sizes, node = layer.sizes, layer.node
    before = [_tensor(f"{name}.before.{each}", (1, 1, sizes.hidden)) for each in range(states)]
    row = _tensor(f"{name}.row", (1, sizes.directions * sizes.gates))
    nodes = list[ir.Node]()
    own = row if sizes.directions == 1 else _own_part(graph, row, number * sizes.gates, sizes.gates, name, nodes)
    after_bias = np.zeros((1, sizes.gates), np.float32) if layer.biases is None else layer.biases[1][number : number + 1]
    zero = add_constant(graph, f"{node.name}.zero", np.zeros((1, 1, 1), np.float32))
    widths = add_constant(graph, f"{node.name}.none", np.zeros((1, sizes.gates, 1), np.float32))
    states_weights = add_constant(graph, f"{name}.states", np.ascontiguousarray(layer.states[number : number + 1]))
    bias = _made("Concat", [own, add_constant(graph, f"{name}.bias", np.ascontiguousarray(after_bias))], f"{name}.biases", {"axis": 1}, nodes)
    bias.shape = ir.Shape([1, 2 * sizes.gates])
    peepholes = () if layer.peepholes is None else [add_constant(graph, f"{name}.peepholes", layer.peepholes[number : number + 1])]
    step = ir.node(
        node.op_type,
        [zero, widths, states_weights, bias, None, *before, *peepholes],
        _step_attributes(layer, number),
        name=f"{name}.step",
        num_outputs=states + 1,
    )
    nodes.append(step)
    step.outputs[0].name = ""
    for each, value in enumerate(step.outputs[1:]):
        value.name, value.shape, value.type = f"{name}.after.{each}", before[each].shape, before[each].type
    every = _made("Identity", [step.outputs[1]], f"{name}.each", {}, nodes)
    every.shape = before[0].shape
    return ir.Graph([*before, row], [*step.outputs[1:], every], nodes=nodes, name=name)


def _step_attributes(layer: RecurrentLayer, number: int) -> dict[str, ir.Attr]:
    """The layer's attributes for one direction, which the loop takes."""
    found = {name: attribute for name, attribute in layer.node.attributes.items() if name not in ("direction", "layout")}
    if "activations" in found and layer.sizes.directions > 1:
        names = found["activations"].as_strings()
        each = len(names) // layer.sizes.directions
        found["activations"] = ir.AttrStrings("activations", names[number * each : (number + 1) * each])
    return found


def _own_part(graph: ir.Graph, row: ir.Value, start: int, length: int, name: str, nodes: list[ir.Node]) -> ir.Value:
    """The part of a row of products that one direction reads."""
    limits = {"first": start, "end": start + length, "axis": 1}
    constants = [add_constant(graph, f"{name}.{each}", np.array([at], np.int64)) for each, at in limits.items()]
    part = _made("Slice", [row, *constants], f"{name}.part", {}, nodes)
    part.shape = ir.Shape([1, length])
    return part


def _made(operator: str, inputs: Sequence[ir.Value], name: str, attributes: dict[str, int], nodes: list[ir.Node]) -> ir.Value:
    made = ir.node(operator, inputs, attributes, name=name, num_outputs=1)
    nodes.append(made)
    made.outputs[0].name, made.outputs[0].type = name, ir.TensorType(ir.DataType.FLOAT)
    return made.outputs[0]


def _tensor(name: str, shape: tuple[int, ...]) -> ir.Value:
    return ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(ir.DataType.FLOAT))


def is_loop(node: ir.Node | None) -> bool:
    """Whether a node makes the steps of a layer."""
    return node is not None and is_operator(node, "Scan") and RECURRENCE in node.metadata_props


def _step_node(loop: ir.Node) -> ir.Node:
    """The layer with one step in the body of a loop."""
    return next(node for node in loop.attributes["body"].as_graph() if is_operator(node, *RECURRENT))


def operator_of(loop: ir.Node) -> str:
    """The operator of the layer whose steps a loop makes."""
    return _step_node(loop).op_type


def loop_sizes(loop: ir.Node) -> Recurrence:
    """The sizes of a loop: of one direction, and without inputs, whose products are made in front of it."""
    (_, steps, _), (_, gates, hidden) = (shape_of(value) for value in (products_of(loop), _given(_step_node(loop), 2)))
    return Recurrence(steps, steps, 0, hidden, gates, 1)


def starts_of(loop: ir.Node) -> list[ir.Value]:
    """The states before the first step."""
    return [value for value in loop.inputs[:-1] if value is not None]


def products_of(loop: ir.Node) -> ir.Value:
    """The tensor whose rows the steps add."""
    return _given(loop, -1)


@dataclass(frozen=True)
class StepConstants:
    """The constants of one direction, as `RecurrentLayer` has them."""

    states: Array
    bias: Array
    peepholes: Array | None


def step_of(loop: ir.Node) -> StepConstants:
    node = _step_node(loop)
    biases = _given(node, 3).producer()
    states, bias = constant(node.inputs[2]), None if biases is None else constant(biases.inputs[1])
    if states is None or bias is None:
        raise ValueError(f"'{loop.name}' is no loop of a recurrent layer")
    return StepConstants(states, bias, constant(node.inputs[PEEPHOLES]) if len(node.inputs) > PEEPHOLES else None)


def _given(node: ir.Node, number: int) -> ir.Value:
    value = node.inputs[number]
    assert value is not None
    return value


def loops_that_read(value: ir.Value) -> list[ir.Node]:
    """Loops whose steps add rows of a tensor."""
    return [node for node, _ in value.uses() if is_loop(node) and products_of(node) is value]


def release(loop: ir.Node) -> None:
    """Lets the body of a loop that goes read its constants no longer."""
    for node in loop.attributes["body"].as_graph():
        for number in range(len(node.inputs)):
            node.replace_input_with(number, None)
