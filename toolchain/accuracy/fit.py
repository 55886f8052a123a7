"""Whether a task, as a model's file states it, can be read from the model's outputs."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from toolchain.graph.nodes.node_text import shape_text
from toolchain.models.task import Classification, Detection, Embedding, Segmentation, Task
from toolchain.spec.errors import UserError, fail
from toolchain.spec.suggest import nearest

Array = np.typing.NDArray[Any]


def check_task(task: Task, outputs: Mapping[str, Array], place: str, inputs: Mapping[str, Array] | None = None) -> None:
    """outputs, inputs: of one sample. Raises UserError E0812 for an output that is not there, or one without the axes or
    entries that the task names."""
    output = _output(task.output, outputs, place)
    match task:
        case Segmentation():
            pass
        case Classification():
            _check_axes(output, outputs, (task.axis,) if outputs[output].ndim else (), place)
        case Embedding():
            _check_axes(output, outputs, (task.axis,), place)
            _check_mask(task, outputs[output], inputs or {}, place)
        case Detection():
            scores = _output(task.scores_output or output, outputs, place)
            _check_axes(output, outputs, (-1, -2), place)
            _check_axes(scores, outputs, (-1, -2), place)
            _check_entries(task, output, scores, outputs, place)
        case _:
            whole = outputs[output].dtype.kind in "iu"
            _check_axes(output, outputs, (-1,) if whole else (task.axis, task.steps), place)


def _output(name: str, outputs: Mapping[str, Array], place: str) -> str:
    if not name:
        return next(iter(outputs))
    if name not in outputs:
        hint = nearest(name, outputs) or f"it has: {', '.join(outputs)}"
        raise fail("E0812", f"the task names the output '{name}', which the model does not have", hint=hint, place=place)
    return name


def _check_axes(name: str, outputs: Mapping[str, Array], axes: tuple[int, ...], place: str) -> None:
    rank = outputs[name].ndim
    if len({axis % rank for axis in axes if -rank <= axis < rank}) < len(axes):
        raise _unfit(name, outputs, f"the task needs the axes {' and '.join(map(str, axes))}", place)


def _check_mask(task: Embedding, output: Array, inputs: Mapping[str, Array], place: str) -> None:
    """A mask has a number for each vector."""
    vectors = output.size // max(output.shape[task.axis], 1)
    if task.mask and task.mask not in inputs:
        hint = nearest(task.mask, inputs) or f"it has: {', '.join(inputs)}"
        raise fail("E0812", f"the task names the input '{task.mask}', which the model does not have", hint=hint, place=place)
    if task.mask and inputs[task.mask].size != vectors:
        raise fail("E0812", f"the mask '{task.mask}' has {inputs[task.mask].size} numbers, the output has {vectors} vectors", place=place)


def _check_entries(task: Detection, output: str, scores: str, outputs: Mapping[str, Array], place: str) -> None:
    axis = -1 if task.entries == "last" else -2
    needed = ((output, task.box + 4), (scores, max(task.classes[1], task.objectness + 1)))
    for name, entries in needed:
        if outputs[name].shape[axis] < entries:
            raise _unfit(name, outputs, f"the task needs {entries} entries on the {task.entries} axis of a row", place)
    if task.classes[0] >= task.classes[1]:
        raise fail("E0812", f"the task's classes {list(task.classes)} are none: the first entry, and the one after the last", place=place)


def _unfit(name: str, outputs: Mapping[str, Array], text: str, place: str) -> UserError:
    return fail("E0812", f"the output '{name}' is {shape_text(outputs[name].shape)}; {text}", place=place)
