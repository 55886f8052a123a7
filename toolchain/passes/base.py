"""The form of a pass: a frozen dataclass whose fields are its options, with the properties it needs and gives."""

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from toolchain.passes.context import Context


@dataclass(frozen=True)
class Pass:
    """A rewriting of the graph. requires: properties that must hold before; ensures: those that hold after (see contracts)."""

    name: ClassVar[str] = ""
    requires: ClassVar[tuple[str, ...]] = ()
    ensures: ClassVar[tuple[str, ...]] = ()

    def run(self, model: ir.Model, context: Context) -> ir.Model:
        """The rewritten model, which may be the same object."""
        raise NotImplementedError(self.name)
