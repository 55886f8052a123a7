"""`tilewright operation ...`"""

import argparse

from toolchain.commands.machine import machine_of
from toolchain.operations.library import Kinds, builtin_kinds, kind_named, kinds_of
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine


def _machine(arguments: argparse.Namespace) -> Machine | None:
    return machine_of(arguments) if arguments.machine else None


def _kinds(machine: Machine | None) -> Kinds:
    return builtin_kinds() if machine is None else kinds_of(machine)


def list_operations(arguments: argparse.Namespace) -> None:
    """One line an operation."""
    from toolchain.report.operation_text import operation_list
    from toolchain.schedule.kernels.kernel_file import load_kernels

    machine = _machine(arguments)
    made = None if machine is None else frozenset(kernel.computes for kernel in load_kernels(machine).values())
    print("\n".join(operation_list(_kinds(machine), made)))


def show(arguments: argparse.Namespace) -> None:
    """Print an operation's declaration and the facts derived from it."""
    from toolchain.report.operation_text import operation_lines

    kinds = _kinds(_machine(arguments))
    print("\n".join(operation_lines(kind_named(kinds, arguments.operation), kinds)))


def check(arguments: argparse.Namespace) -> None:
    """One line an operation. Raises UserError E1303 and E1304."""
    from toolchain.verify.operation_check import check_operation

    if not 1 <= arguments.shapes <= 10_000:
        raise fail("E0002", f"--shapes is {arguments.shapes}, it must be from 1 to 10000")
    kinds = _kinds(_machine(arguments))
    for name in arguments.operation or kinds:
        found = check_operation(kind_named(kinds, name), kinds, arguments.shapes, arguments.seed)
        print(f"{name}: {found.shapes} shapes; float body {found.floats}, integer body {found.integers}, other ways {found.ways}: all equal")
