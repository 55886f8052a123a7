"""Models that run in several ways: the states that one step hands to the next, with the sequences that calibrate them; and axes that take several
sizes."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir

from toolchain.graph.nodes import shape_text
from toolchain.graph.preparation import LengthAxis
from toolchain.graph.rewrite import known_shape
from toolchain.graph.states import Sequences
from toolchain.models.files import named_file, present_file
from toolchain.models.model import Input, Model, Pictures, Recorded, Seeded, State, Stored
from toolchain.models.samples import file_arrays, recorded_samples, seeded_inputs
from toolchain.models.sources import named_axes
from toolchain.spec.arrays import Array
from toolchain.spec.errors import fail, nearest
from toolchain.spec.yaml_nodes import Node


def length_axes(model: Model, names: Sequence[str]) -> tuple[LengthAxis, ...]:
    """The axes of the inputs that are called so in the ONNX file, or `INPUT.AXIS`. Raises UserError E0905 for a name that no open axis has."""
    found = named_axes(model.origin.file) if isinstance(model.origin, Stored) else []
    axes = tuple(LengthAxis(axis.input, axis.axis, name) for axis in found for name in names if name in (axis.name, axis.key))
    known = {axis.name for axis in axes}
    for name in names:
        if name not in known:
            open_names = dict.fromkeys(axis.name or axis.key for axis in found)
            hint = nearest(name, open_names) or (f"open: {', '.join(open_names)}" if open_names else "every dimension has a number already")
            raise fail("E0905", f"no dimension of the inputs is called '{name}'", hint=hint, place=str(model.path))
    return axes


def opened(model: Model, names: Collection[str]) -> Model:
    """The model, of whose inputs recorded samples may have any size along these dimensions. Raises UserError as `length_axes`."""
    if not names:
        return model
    axes = length_axes(model, tuple(names))
    inputs = {name: replace(entry, open=tuple(axis.axis for axis in axes if axis.tensor == name)) for name, entry in model.inputs.items()}
    return replace(model, inputs=inputs)


def read_states(root: Node, path: Path, inputs: Mapping[str, Input]) -> tuple[State, ...]:
    """The section `state`, which is there. Raises UserError E0815 for an input that is not there, or an output that is two states."""
    found = tuple(_state(name, node, path, inputs) for name, node in root.members("state"))
    outputs = [state.output for state in found]
    if twice := next((state for number, state in enumerate(found) if state.output in outputs[:number]), None):
        raise fail("E0815", f"the output '{twice.output}' becomes two inputs", twice.span, "give each state an output of its own")
    return found


def check_beside(root: Node) -> None:
    """Raises UserError E0816 for sections of a model's file that do not go with its states, or are of models with states alone."""
    samples = root.get("calibration")
    if root.get("state") is None:
        if samples and (steps := samples.get("steps")):
            raise fail("E0816", "'steps' are of sequences, and this model has no 'state'", steps.where())
        return
    for name in ("lengths", "test"):
        if root.get(name):
            raise fail("E0816", f"'{name}' does not go with 'state'", root.value[name].where(), "docs/decoding.md lists the limits")
    if samples and (folder := samples.get("folder")):
        raise fail("E0816", "a folder of pictures does not go with 'state': its samples are sequences", folder.span, "record them in an .npz file")


def _state(name: str, node: Node, path: Path, inputs: Mapping[str, Input]) -> State:
    if name not in inputs:
        hint = nearest(name, inputs) or f"inputs: {', '.join(inputs)}"
        raise fail("E0815", f"the model has no input '{name}'", node.where(), hint)
    if isinstance(node.value, str):
        return State(name, node.value, span=node.span)
    output, start = node.value["output"], node.get("start")
    file = start.get("file") if start else None
    if start is None or file is None:
        return State(name, str(output.value), float(start.value) if start else 0.0, span=output.span)
    found = present_file(file, path) if isinstance(file.value, dict) else named_file(file, path)
    return State(name, str(output.value), 0.0, found, start.text("array"), output.span)


def check_states(model: Model, graph: ir.Model) -> None:
    """graph: the imported network. Raises UserError E0815 for an output that is not there, or is no tensor of the input's shape and type."""
    inputs, outputs = ({value.name or "": value for value in side} for side in (graph.graph.inputs, graph.graph.outputs))
    for state in model.states:
        if state.output not in outputs:
            hint = nearest(state.output, outputs) or f"outputs: {', '.join(outputs)}"
            raise fail("E0815", f"the model has no output '{state.output}'", state.span, hint)
        taken, made = inputs[state.input], outputs[state.output]
        if known_shape(taken) is None or known_shape(taken) != known_shape(made) or taken.dtype != made.dtype:
            one, other = (f"{value.dtype} of shape {shape_text(known_shape(value))}" for value in (taken, made))
            raise fail("E0815", f"the output '{state.output}' is {other}, and the input '{state.input}' {one}: they are no state", state.span)


def start_files(model: Model) -> tuple[Path, ...]:
    """Whatever the starts are read from."""
    return tuple(dict.fromkeys(state.file for state in model.states if state.file is not None))


def state_starts(model: Model) -> dict[str, Array]:
    """By input, [*shape] in its type: every state before the first step.

    Raises UserError E0001 and E0808 for a file of arrays, E0815 for an array of another shape or type, or a number that the type does not hold.
    """
    return dict(_starts(model))


def _starts(model: Model) -> Iterator[tuple[str, Array]]:
    for state in model.states:
        entry = model.inputs[state.input]
        if entry.dtype not in np.sctypeDict or entry.dtype == "string":
            raise fail("E0815", f"the input '{state.input}' is {entry.dtype}, which no state can be", state.span)
        kind = np.dtype(entry.dtype)
        found = np.full(entry.shape, state.start) if state.file is None else _stored_start(state, state.file)
        typed = found.astype(kind) if found.dtype.kind in "biuf" else found
        if (
            found.shape != entry.shape
            or found.dtype.kind not in "biuf"
            or not np.isfinite(typed).all()
            or (kind.kind != "f" and (typed != found).any())
        ):
            given = f"{found.dtype} of shape {shape_text(found.shape)}" if state.file else f"{state.start:g}"
            raise fail("E0815", f"'{state.input}', {kind} of shape {shape_text(entry.shape)}, cannot start as {given}", state.span)
        yield state.input, typed


def _stored_start(state: State, file: Path) -> Array:
    arrays = file_arrays(file, state.array, state.span)
    if state.array not in arrays:
        hint = nearest(state.array, arrays) or f"known: {', '.join(arrays) or 'none'}"
        raise fail("E0808", f"there is no array '{state.array}' in {file}", state.span, hint, str(file))
    return arrays[state.array]


def model_sequences(model: Model) -> Sequences:
    """The sequences that calibrate a model with states. Raises UserError E0808 (samples), E0815 as `state_starts`."""
    match model.calibration:
        case Seeded(count=count, steps=steps):
            whole = {name: seeded_inputs(name, entry, count * steps) for name, entry in model.given.items()}
            given = {name: array.reshape(count, steps, *array.shape[1:]) for name, array in whole.items()}
        case Recorded() as recorded:
            given = recorded_samples(recorded, model.given, sequences=True)
        case Pictures(folder=folder, span=span):
            raise fail("E0816", "a folder of pictures is no sequence of steps", span, "record the sequences in an .npz file", str(folder))
    return Sequences(given, model.pairs, state_starts(model))
