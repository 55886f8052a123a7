"""`tilewright kernel ...`"""

import argparse

from toolchain.commands.machine import machine_of
from toolchain.spec.errors import fail
from toolchain.spec.suggest import nearest


def check(arguments: argparse.Namespace) -> None:
    """One line a kernel. Raises UserError E1002 for an unknown one, E1305 and E1306."""
    from toolchain.operations.library import kinds_of
    from toolchain.schedule.kernels.kernel_file import load_kernels
    from toolchain.verify.call_check import check_call
    from toolchain.verify.kernel_check import check_kernel

    if not 1 <= arguments.shapes <= 1000:
        raise fail("E0002", f"--shapes is {arguments.shapes}, it must be from 1 to 1000")
    machine = machine_of(arguments)
    kernels, kinds = load_kernels(machine), kinds_of(machine)
    for name in arguments.kernel or kernels:
        if name not in kernels:
            raise fail("E1002", f"machine '{machine.name}' has no kernel '{name}'", hint=nearest(name, kernels) or f"known: {', '.join(kernels)}")
        if kernels[name].call is not None:
            called = check_call(machine, kernels[name], kinds, arguments.shapes, arguments.seed)
            print(f"{name}: {called.operation} of {called.computed} shapes: all equal")
            continue
        found = check_kernel(machine, kernels[name], kinds, arguments.shapes, arguments.seed)
        print(f"{name}: {found.operation} of {found.computed} shapes in {found.tilings} tilings: all equal, no race")
