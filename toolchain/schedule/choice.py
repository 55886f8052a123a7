"""Choose the kernel of an operation."""

from collections.abc import Collection, Mapping

from toolchain.operations.operation import Operation
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.problem import Problem, state_problem
from toolchain.schedule.placement.storage import layout_of
from toolchain.spec.errors import Diagnostic, UserError, fail
from toolchain.spec.model import Machine


def choose_kernel(
    machine: Machine, kernels: Mapping[str, Kernel], operation: Operation, given: Collection[str] = (), passed: Collection[str] = ()
) -> Problem:
    """The operation for the first kernel that can do it. given: the kernel's tensors that the host writes, through any layout. passed: operands that
    other operations of its group leave on chip.

    Raises UserError E1003 with the reason of every kernel where none can, the most general first, E1008 where there is none for its kind.
    """
    reasons: list[Diagnostic] = []
    for kernel in kernels.values():
        if kernel.computes == operation.kind.name and set(kernel.passed) == set(passed):
            try:
                problem = state_problem(machine, kernel, operation)
            except UserError as error:
                reasons[:0] = error.diagnostics
                continue
            foreign = next((t.name for t in kernel.tensors if t.values is None and t.name not in given and not layout_of(machine, t).written), None)
            if foreign is None:
                return problem
            text = f"kernel '{kernel.name}' wants '{foreign}' in a layout that the machine does not write"
            reasons.insert(0, Diagnostic("E1003", text, kernel.span))
    raise UserError(*reasons) if reasons else fail("E1008", f"machine '{machine.name}' has no kernel for '{operation.kind.name}'")
