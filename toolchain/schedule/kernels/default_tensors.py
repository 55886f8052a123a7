"""Tensors that a kernel does not state: operands and the result stand in the one layout that the machine writes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from toolchain.operations.kind import Operand, OperationKind
from toolchain.schedule.kernels.dram_views import dram_views, views_reached
from toolchain.schedule.kernels.kernel import Step, Tensor
from toolchain.schedule.kernels.mentions import mentioned
from toolchain.schedule.kernels.picture_numbers import PICTURE, picture_extents
from toolchain.schedule.kernels.sequence import Items
from toolchain.spec.errors import fail
from toolchain.spec.model import Layout, Machine
from toolchain.spec.yaml_nodes import Node


def default_tensors(machine: Machine, kind: OperationKind, stated: Iterable[str], node: Node) -> Iterator[Tensor]:
    """Computed operands and the result. Raises UserError E1002 where it is not clear in which layout the result stands."""
    written = [layout for layout in machine.layouts if layout.written]
    layouts = [layout for layout in written if sorted(layout.domain) == sorted(PICTURE)]
    if len(layouts) != 1:
        if kind.result.name in stated:
            return
        told = [f"layout '{layout.name}' has the indices {' '.join(layout.domain)}" for layout in written] or ["the machine writes no layout"]
        text = f"{' and '.join(told)}; those of a tensor that operations read or write are n, c, h and w"
        raise fail("E1002", text, node.where(), f"without one such layout, '{kind.result.name}' needs an entry in 'tensors'")
    for operand in (*(kind.operand[name] for name in kind.data), kind.result):
        extents = picture_extents(operand)
        if extents and operand.name not in stated:
            ordered = tuple(extents[index] for index in layouts[0].domain)
            yield Tensor(operand.name, "", layouts[0].name, ordered, {}, None, operand is kind.result)


def array_indices(operand: Operand, layout: Layout) -> dict[str, str]:
    """By index of the layout, that of an array which is stored as it is: the one of the same name; the others stand in the same order.

    Empty where the array has another number of indices.
    """
    if len(operand.axes) != len(layout.domain):
        return {}
    others = iter(axis for axis in operand.axes if axis not in layout.domain)
    return {index: index if index in operand.axes else next(others) for index in layout.domain}


def reached(folder: Path, steps: Iterable[Step], tensor: Tensor) -> bool:
    """Whether some step loads or stores it: an operand that none reaches has been left on chip."""
    return tensor.written or any(f"{tensor.name}_base" in mentioned(folder, step.code) for step in steps)


def with_views(machine: Machine, tensors: Iterable[Tensor], steps: Iterable[Step], folder: Path, node: Node) -> tuple[Tensor, ...]:
    """Tensors whose views are not stated get those of the instructions that reach them. Raises UserError E1002 where these do not tell."""
    codes = [(step.code, mentioned(folder, step.code)) for step in steps if not isinstance(step.code, str)]
    return tuple(_viewed(machine, tensor, codes, node) for tensor in tensors)


def _viewed(machine: Machine, tensor: Tensor, codes: Iterable[tuple[Items, tuple[str, ...]]], node: Node) -> Tensor:
    found = [code for code, names in codes if f"{tensor.name}_base" in names]
    if not tensor.view:
        stated = dict(node.members("tensors")).get(tensor.name, node)
        tensor = replace(tensor, view=only_view(machine, found, f"tensor '{tensor.name}'", stated, {f"{tensor.name}_shared": 0}))
    if tensor.shared or not any(f"{tensor.name}_shared" in names for _, names in codes):
        return tensor
    apart, shared = ({v for code in found for v in views_reached(machine, code, {f"{tensor.name}_shared": value})} for value in (0, 1))
    if len(shared - apart) != 1:
        raise fail("E1002", f"where '{tensor.name}_shared' is 1, the instructions of '{tensor.name}' do not reach one other view", node.where())
    return replace(tensor, shared=(shared - apart).pop())


def only_view(machine: Machine, codes: Iterable[Items], what: str, node: Node, assumed: Mapping[str, int] | None = None) -> str:
    """The one view of DRAM that all these instructions reach. Raises UserError E1002."""
    views = tuple(dict.fromkeys(view for code in codes for view in dram_views(machine, code, assumed)))
    if len(views) != 1:
        reach = f"its instructions reach {' and '.join(views)}" if views else "no instruction with its address reaches DRAM"
        raise fail("E1002", f"{what} needs a 'view': {reach}", node.where())
    return views[0]
