"""What passes know besides the graph."""

from dataclasses import dataclass

from toolchain.graph.calibration import Samples, Table
from toolchain.graph.numerics import Numerics
from toolchain.passes.templates import Template


@dataclass(frozen=True)
class Context:
    """place: the model's path as messages print it. templates: a machine's fusion templates; none means the default ones.

    numerics: of the machine to quantise for. table: what calibration saw in the float network. samples: the inputs it saw.
    """

    place: str = ""
    templates: tuple[Template, ...] = ()
    numerics: Numerics | None = None
    table: Table | None = None
    samples: Samples | None = None
