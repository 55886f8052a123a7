"""Three engines that run programs, by name. All of them leave the same memory behind."""

from collections.abc import Callable

from toolchain.analysis.state import State
from toolchain.isa.program import Ints, Program

Engine = Callable[[Program, State, Ints], None]


def engine_named(name: str) -> Engine:
    """`reference` interprets scalar by scalar; `fast` is generated C, or numpy where there is no compiler."""
    if name == "reference":
        from toolchain.emulator import reference

        return reference.run
    from toolchain.emulator import native

    if native.available():
        return native.run
    from toolchain.emulator import numpy_engine  # a tenth of what a short command takes, and hardly ever used

    return numpy_engine.run
