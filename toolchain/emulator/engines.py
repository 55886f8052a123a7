"""The engines by name. All of them leave the same memory behind."""

from collections.abc import Callable

from toolchain.analysis.state import State
from toolchain.emulator import native, numpy_engine, reference
from toolchain.isa.program import Ints, Program

Engine = Callable[[Program, State, Ints], None]


def engine_named(name: str) -> Engine:
    """`reference` interprets scalar by scalar; `fast` is generated C, or numpy where there is no compiler."""
    if name == "reference":
        return reference.run
    return native.run if native.available() else numpy_engine.run
