"""Closeness of the integer network to the user's float network: as a line, as a stage's result in a file, and as the share that integers lose."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from toolchain.accuracy.errors import Ends, Energy, Errors, Output
from toolchain.accuracy.measure import GOOD, Measured, measure_task
from toolchain.models.model import Embedding, Task
from toolchain.spec.arrays import Array
from toolchain.spec.typed_json import from_json

LEAST = 10.0
"""Below so many dB at an output, results have little to do with the trained network's: the noise has a third of the signal's amplitude."""
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


@dataclass(frozen=True)
class Inference:
    """images: how many, of which kind. right: the share of right answers by way (float, integer, emulator), None without labels. task: the measure of
    the model's task by way, empty without one. exact: the emulator equals ONNX Runtime in every bit of every output. distance: the largest difference
    of a number where a machine in floating point may differ; None on all other machines.

    images_per_run, cycles, machine_ms, total_ms: of one run. reference: why ONNX Runtime does not take the very file, empty where it does.
    """

    images: int
    kind: str
    right: Mapping[str, float | None]
    task: Mapping[str, Measured]
    exact: bool
    images_per_run: int
    cycles: float
    machine_ms: float
    total_ms: float
    clock_khz: int
    closeness: Closeness
    reference: str
    calibration: str
    distance: float | None = None


def inference_text(found: Inference) -> str:
    """The results as JSON, names in the order of the class."""
    return json.dumps(asdict(found), indent=1) + "\n"


def read_inference(text: str) -> Inference:
    """Raises ValueError for a text that `inference_text` did not write."""
    return from_json(Inference, json.loads(text))


FEW = 10
"""Fewer samples than this do not show the ranges of others: 12 to 41 dB were lost on new ones where four had calibrated a network."""
SATURATED = 0.02
"""Share of a tensor's values outside of the stored range from which a summary names the tensor."""
KINDS = ("test", "held-out", "calibration")


@dataclass(frozen=True)
class Stated:
    """samples: how many were run; 0 where nothing was measured, as there are no samples but made-up ones. kind: the model's test samples; those that
    calibrate it and were not fitted to; or any that calibrate it, for want of others. calibrating: how many calibrate it.

    right: share of right answers of the float network and of the integers, None without labels. task: None where the model's file names none.
    saturated: the tensor with most values outside of the stored range, empty where none has many; clipped: their share.
    """

    samples: int
    kind: str = ""
    calibrating: int = 0
    right: tuple[float, float] | None = None
    task: Measured | None = None
    closeness: Closeness | None = None
    saturated: str = ""
    clipped: float = 0.0

    def text(self) -> str:
        """One line for a summary; empty where nothing was measured."""
        if not self.samples:
            return ""
        parts = [f"{100 * self.right[1]:.2f} % right, in floating point {100 * self.right[0]:.2f} %"] if self.right else []
        parts += [self.task.text] if self.task and not self.right else []
        parts += [self.closeness.outputs_text()] if self.closeness and self.closeness.outputs else []
        of = {"test": "test samples", "held-out": "samples held out", "calibration": "samples that calibrate it"}[self.kind]
        return f"{'; '.join(parts) or 'as in floating point'}; on {self.samples} {of}"

    def warnings(self) -> Iterator[str]:
        """Remarks that a user should know before trusting the integers."""
        if not self.samples:
            return
        if self.calibrating < FEW:
            yield f"{self.calibrating} samples calibrate it, which are few: values of others may lie outside the ranges"
        if self.closeness:
            yield from self.closeness.warnings(self.task is not None and self.task.share >= GOOD)
        if self.saturated:
            yield f"{100 * self.clipped:.1f} % of the values of {self.saturated} are cut off on these samples: the range of others was smaller"


def stated_text(found: Stated) -> str:
    """JSON, names in the order of the class."""
    return json.dumps(asdict(found), indent=1) + "\n"


def read_stated(text: str) -> Stated:
    """Raises ValueError for a text that `stated_text` did not write."""
    return from_json(Stated, json.loads(text))


Results = Sequence[Mapping[str, Array]]


def output_noise(wanted: Results, found: Results) -> float:
    """The energy of the error over that of the output, of the output and the part of it where it is largest; 1 at most. Whole numbers do not count.

    A part that is always zero is as right as the whole.
    """
    ends: dict[str, Ends] = {}
    for one, other in zip(wanted, found, strict=True):
        for name, array in one.items():
            if array.dtype.kind == "f":
                ends.setdefault(name, Ends()).add(array, other[name])
    return max((_share(energy) for end in ends.values() for energy in (end.whole, *end.parts.values())), default=0.0)


def _share(energy: Energy) -> float:
    return min(energy.noise / energy.signal, 1.0) if energy.signal > 0 else 0.0


def task_loss(task: Task | None, inputs: Results, wanted: Results, found: Results) -> float:
    """The least of both: an output may be noisy and its task done well, and the other way where a task of few samples counts in large steps.

    Of embeddings: the energy of vectors of unit length, which is twice one minus their cosine.
    """
    if isinstance(task, Embedding):
        return 2 * (1 - measure_task(task, wanted, found, inputs).share)
    noise = output_noise(wanted, found)
    return noise if task is None else min(noise, 1 - measure_task(task, wanted, found, inputs).share)
