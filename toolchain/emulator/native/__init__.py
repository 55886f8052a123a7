"""The C engine: one C function an instruction, generated from the semantics, compiled once, run over whole programs."""

from toolchain.emulator.native.engine import available, run

__all__ = ["available", "run"]
