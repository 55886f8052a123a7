"""`tilewright kernel ...`"""

import argparse
from collections.abc import Collection, Iterable, Iterator, Sequence

from toolchain.commands.machine import machine_of
from toolchain.spec.errors import fail, nearest
from toolchain.spec.model import Machine


def check(arguments: argparse.Namespace) -> None:
    """One line a kernel. Raises UserError E1002 for an unknown one, E1305 and E1306."""
    from toolchain.operations.library import kinds_of
    from toolchain.schedule.kernels.kernel_file import load_kernels
    from toolchain.verify.call_check import check_call
    from toolchain.verify.kernel_check import check_kernel

    if not 1 <= arguments.shapes <= 1000:
        raise fail("E0002", f"--shapes is {arguments.shapes}, it must be from 1 to 1000")
    machine = machine_of(arguments)
    if machine.calls_operators:
        _check_operators(machine, arguments.kernel)
        return
    kernels, kinds = load_kernels(machine), kinds_of(machine)
    for name in _chosen(machine, arguments.kernel, kernels):
        if kernels[name].call is not None:
            called = check_call(machine, kernels[name], kinds, arguments.shapes, arguments.seed)
            print(f"{name}: {called.operation} of {called.computed} shapes: all equal")
            continue
        found = check_kernel(machine, kernels[name], kinds, arguments.shapes, arguments.seed)
        print(f"{name}: {found.operation} of {found.computed} shapes in {found.tilings} tilings: all equal, no race")


def _check_operators(machine: Machine, names: Sequence[str]) -> None:
    """One line a function for an operator of ONNX. Raises as `check`."""
    from toolchain.schedule.kernels.operator_calls import load_operator_calls
    from toolchain.verify.operator_check import check_operator

    for name in _chosen(machine, names, load_operator_calls(machine)):
        found = check_operator(machine, name)
        print(f"{name}: {found.cases} of ONNX's {found.cases + found.refused} cases, furthest {found.distance:.2g} away")


def _chosen(machine: Machine, names: Iterable[str], known: Collection[str]) -> Iterator[str]:
    """The named kernels, or all. Raises UserError E1002 for an unknown one, when its turn comes."""
    for name in names or known:
        if name not in known:
            raise fail("E1002", f"machine '{machine.name}' has no kernel '{name}'", hint=nearest(name, known) or f"known: {', '.join(known)}")
        yield name
