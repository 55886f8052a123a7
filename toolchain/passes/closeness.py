"""How close the integer network is to the float one, in a line that everybody reads."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from toolchain.passes.error_table import Errors

LEAST = 10.0
"""Below so many dB at an output, what is computed has little to do with what was trained: the noise has a third of the signal's amplitude."""


@dataclass(frozen=True)
class Closeness:
    """Signal to quantisation noise in dB, None where there is no noise. outputs: of the whole model by name. worst: of all stored tensors.

    tensor: the name of the worst, empty where the network stores none.
    """

    outputs: Mapping[str, float | None]
    tensor: str
    worst: float | None

    def text(self) -> str:
        """`outputs 31.2 dB, worst 12.3 dB (name)`: of several outputs the worst one."""
        known = [sqnr for sqnr in self.outputs.values() if sqnr is not None]
        parts = [f"outputs {_text(min(known) if known else None)}"] if self.outputs else []
        parts += [f"worst {_text(self.worst)} ({self.tensor})"] if self.tensor else []
        return ", ".join(parts)

    def warnings(self) -> list[str]:
        """One line for each output that is mostly noise."""
        low = [(name, sqnr) for name, sqnr in self.outputs.items() if sqnr is not None and sqnr < LEAST]
        return [f"output {name} is far from the float network, {sqnr:.1f} dB: its integers cannot be trusted" for name, sqnr in low]


def _text(sqnr: float | None) -> str:
    return "without noise" if sqnr is None else f"{sqnr:.1f} dB"


def closeness_of(errors: Errors) -> Closeness:
    """What is worth a line of what was measured."""
    worst = errors.tensors[0] if errors.tensors else None
    outputs = {name: _finite(sqnr) for name, sqnr in errors.outputs.items()}
    return Closeness(outputs, worst.tensor if worst else "", _finite(worst.sqnr) if worst else None)


def _finite(sqnr: float) -> float | None:
    """What JSON holds: three digits, nothing for a tensor without noise."""
    return None if math.isinf(sqnr) else round(sqnr, 3)
