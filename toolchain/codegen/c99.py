"""C99 code: a function for each region, which calls a library of kernels on tensors at planned places of one block of memory."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from toolchain.codegen.region_code import RegionCode
from toolchain.codegen.templates import render
from toolchain.schedule.calls import PlannedCalls, library_call
from toolchain.schedule.dram_allocation import ALIGN
from toolchain.schedule.kernels.kernel import Call, Tensor
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.regions.region import Bound
from toolchain.spec.evaluate import constant
from toolchain.spec.model import Machine


def c99_code(machine: Machine, plan: PlannedCalls) -> RegionCode:
    """The planned calls as a C file, and the library's files beside it."""
    library = library_call(plan.problems[0]).library
    region, held = plan.region, plan.placed.map
    source = c99_source(machine, plan)
    return RegionCode(
        target=machine.name,
        suffix="c",
        blob=source.encode(),
        source=source,
        map=held,
        constants=plan.placed.constants,
        images=held.tensors[held.outputs[0]].shape.batch,
        cycles=sum(plan.cycles),
        files=library.files(),
        function=region.name,
    )


@dataclass(frozen=True)
class CallText:
    """A call as the template has it. arguments: members of the function's structure, with their text."""

    label: str
    function: str
    arguments: tuple[tuple[str, str], ...]


def c99_source(machine: Machine, plan: PlannedCalls) -> str:
    """The text of the region's C file."""
    each = zip(plan.problems, plan.region.operations, plan.placed.scopes[0], strict=True)
    calls = [_call_text(machine, problem, bound, scope) for problem, bound, scope in each]
    header, size = library_call(plan.problems[0]).library.header, plan.placed.map.bytes
    return render("c99", "region.c.j2", name=plan.region.name, machine=machine.label, header=header, bytes=size, align=ALIGN, calls=calls)


def _call_text(machine: Machine, problem: Problem, bound: Bound, scope: Mapping[str, int]) -> CallText:
    call, tensors = library_call(problem), {tensor.name: tensor for tensor in problem.kernel.tensors}
    numbers = {**problem.numbers, **scope}
    return CallText(
        c_comment(f"{bound.operation.name}: {bound.operation.kind.name}"), call.function, tuple(_arguments(machine, call, tensors, numbers))
    )


def _arguments(machine: Machine, call: Call, tensors: Mapping[str, Tensor], numbers: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    for member, value in call.arguments.items():
        if isinstance(value, str):
            yield member, _address(machine, tensors[value], numbers[f"{value}_base"])
        else:
            yield member, str(constant(value, numbers))


def _address(machine: Machine, tensor: Tensor, base: int) -> str:
    """base: in elements of the tensor's view."""
    scalar = machine.view[tensor.view].element.scalar
    kind = f"{'' if scalar.signed else 'u'}int{scalar.bits}_t"
    return f"({'' if tensor.written else 'const '}{kind} *)(memory + {base * max(machine.view[tensor.view].unit, 1)})"


def c_comment(text: str) -> str:
    """Names come from the model: what could end a comment, or a line of it, is left out."""
    return re.sub(r"[^A-Za-z0-9_.:,() -]", "_", text)[:120]
