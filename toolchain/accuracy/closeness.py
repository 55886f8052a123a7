"""How close the integer network is to the one that the user gave, in a line that everybody reads."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from toolchain.accuracy.errors import Errors, Output

LEAST = 10.0
"""Below so many dB at an output, results have little to do with what was trained: the noise has a third of the signal's amplitude."""
LOST = 3.0
"""Below so many dB a stored tensor is named: its noise has more than half of the signal's energy."""
NAMED = 12
"""Lost tensors that a line names; more are counted."""


@dataclass(frozen=True)
class OutputCloseness:
    """Signal to noise in dB, None where there is no noise. part: the worst entry along `axis`, which is 0 where the output is judged as a whole.

    lost: share of the worst part's elements whose error exceeds the part's own deviation.
    """

    sqnr: float | None
    axis: int
    part: int
    worst: float | None
    lost: float


@dataclass(frozen=True)
class Closeness:
    """outputs: of the whole model by name, against the file that the user gave. tensor: the worst stored one, empty where the network stores
    none; worst: its dB. lost: stored tensors that are mostly noise, by name, dB."""

    outputs: Mapping[str, OutputCloseness]
    tensor: str
    worst: float | None
    lost: Mapping[str, float]

    def text(self) -> str:
        """`outputs 31.2 dB, worst 12.3 dB (name)`: of several outputs and their parts the worst."""
        parts = [self.outputs_text()] if self.outputs else []
        parts += [f"worst {_text(self.worst)} ({self.tensor})"] if self.tensor else []
        return ", ".join(parts)

    def outputs_text(self) -> str:
        """`outputs 31.2 dB`: of several outputs and their parts the worst."""
        known = [found.worst for found in self.outputs.values() if found.worst is not None]
        return f"outputs {_text(min(known) if known else None)}"

    def warnings(self, trusted: bool = False) -> list[str]:
        """One line for each output that is mostly noise, and one for stored tensors that are. trusted: the network's task is known to be done well
        in spite of noise, which speaks for the outputs."""
        return [*(() if trusted else self._outputs()), *self._tensors()]

    def _outputs(self) -> Iterator[str]:
        for name, found in self.outputs.items():
            if found.worst is not None and found.worst < LEAST:
                where = f"part {found.part} of axis {found.axis} of output {name}" if found.axis else f"output {name}"
                told = f"{found.worst:.1f} dB, and {100 * found.lost:.0f} % of it is off by more than its own deviation"
                yield f"{where} is far from the float network, {told}: its integers cannot be trusted"

    def _tensors(self) -> Iterator[str]:
        if self.lost:
            named = ", ".join(f"{name} {sqnr:.1f} dB" for name, sqnr in list(self.lost.items())[:NAMED])
            more = f" and {len(self.lost) - NAMED} more" if len(self.lost) > NAMED else ""
            yield f"stored tensors that are mostly noise: {named}{more}"


def _text(sqnr: float | None) -> str:
    return "without noise" if sqnr is None else f"{sqnr:.1f} dB"


def closeness_of(errors: Errors) -> Closeness:
    """The figures that are worth a line."""
    worst = errors.tensors[0] if errors.tensors else None
    outputs = {name: _output(found) for name, found in errors.outputs.items()}
    lost = {row.tensor: round(row.sqnr, 3) for row in errors.tensors if row.sqnr < LOST}
    return Closeness(outputs, worst.tensor if worst else "", _finite(worst.sqnr) if worst else None, lost)


def _output(found: Output) -> OutputCloseness:
    part = found.parts[0]
    return OutputCloseness(_finite(found.sqnr), found.axis, part.index, _finite(part.sqnr), round(part.lost, 6))


def _finite(sqnr: float) -> float | None:
    """A number of JSON: three digits, None for a tensor without noise."""
    return None if math.isinf(sqnr) and sqnr > 0 else round(max(sqnr, -300.0), 3)
