"""The reference engine: the semantics interpreted scalar by scalar."""

from toolchain.emulator.reference.engine import run

__all__ = ["run"]
