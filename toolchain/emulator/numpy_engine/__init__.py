"""The numpy engine: instructions as array operations, derived from their semantics."""

from toolchain.emulator.numpy_engine.engine import run

__all__ = ["run"]
