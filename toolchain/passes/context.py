"""What passes know besides the graph."""

from collections.abc import Callable
from dataclasses import dataclass

import onnx_ir as ir

from toolchain.graph.calibration import Samples, Table
from toolchain.graph.numerics import Numerics
from toolchain.passes.templates import Template


@dataclass(frozen=True)
class Device:
    """A machine that takes operations. refuses: why it does not take an integer call of the graph; an empty string where it does."""

    name: str
    refuses: Callable[[ir.Node], str]


@dataclass(frozen=True)
class Context:
    """place: the model's path as messages print it. templates: a machine's fusion templates; none means the default ones.

    numerics: of the machine to quantise for. table: what calibration saw in the float network. samples: the inputs it saw.
    device: what regions are made for; without one everything stays on the host.
    """

    place: str = ""
    templates: tuple[Template, ...] = ()
    numerics: Numerics | None = None
    table: Table | None = None
    samples: Samples | None = None
    device: Device | None = None
