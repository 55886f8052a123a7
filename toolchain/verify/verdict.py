"""The verdict of a verification: every tensor that was compared and the first difference, in words and as data for JSON."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from toolchain.accuracy.closeness import Closeness
from toolchain.accuracy.errors import TensorError
from toolchain.spec.errors import one_line
from toolchain.spec.typed_json import Tree, from_json

Coordinates = tuple[int, ...]


@dataclass(frozen=True)
class LastWriter:
    """The last instruction that wrote an element. index: in the program. label: its comment in the listing. place: where it wrote.

    before: the chain of its sources: the last instruction that wrote the data it reads on chip, the one before that, and so on.
    """

    index: int
    instruction: str
    label: str
    place: str
    before: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """The first element of a tensor that differs from the integer network. coordinates: image, channel, row, column.

    differing: how many elements of the tensor differ. writer: None where no instruction wrote the element.
    nodes: of the ONNX graph that the operation stands for.
    """

    tensor: str
    coordinates: Coordinates
    expected: float
    found: float
    differing: int
    operation: str
    nodes: tuple[str, ...]
    writer: LastWriter | None


@dataclass(frozen=True)
class Compared:
    """A tensor that was compared element by element. where: the memory that it was read from. after: the operation that it was read after.

    difference: one that the machine's file does not allow. distance: the largest of all differences, where it allows some.
    """

    tensor: str
    after: str
    where: str
    elements: int
    difference: Difference | None = None
    distance: float = 0.0


@dataclass(frozen=True)
class Disagreement:
    """Engines that leave different bytes behind. instruction: the last one that the engines executed, empty after a whole program."""

    instruction: str
    label: str
    memory: str
    reference: str
    fast: str


@dataclass(frozen=True)
class Sampled:
    """The sample that the reference engine executed again: so many instructions of all, and so many elements that they write."""

    instructions: int
    of: int
    elements: int
    disagreement: Disagreement | None = None


@dataclass(frozen=True)
class RegionVerdict:
    """One region on the machine. hazards: findings for which the checks before the run refuse the program (races, bad addresses); warnings: the
    others.

    unseen: tensors that were not compared, each with the reason. ordered: whether runs in orders in which the units
    may issue leave the same outputs as one in the schedule's order. tolerated: hazards that the machine's file calls warnings.

    instructions: also calls of a library, or operators of a graph, as `told` says; these have no units and no reference engine, so sampled is
    None. allowed: how far results may be from the expected ones, and why; empty where they have to be the same bits. beside: of a machine's own
    floating arithmetic, how far ONNX Runtime's is from it.
    """

    region: str
    instructions: int
    compared: tuple[Compared, ...]
    unseen: tuple[tuple[str, str], ...]
    hazards: tuple[str, ...]
    warnings: tuple[str, ...]
    ordered: bool
    sampled: Sampled | None
    tolerated: int = 0
    told: str = ""
    allowed: str = ""
    beside: str = ""

    @property
    def difference(self) -> Difference | None:
        """The first one: everything that its operation read was equal, as far as it was compared."""
        return next((item.difference for item in self.compared if item.difference), None)

    @property
    def exact(self) -> bool:
        """Whether all is right, and the same bits."""
        return self.right and not self.allowed

    @property
    def right(self) -> bool:
        """Whether all is as it has to be."""
        agreed = self.sampled is None or self.sampled.disagreement is None
        return self.difference is None and self.ordered and agreed and not self.unseen and not self.hazards


@dataclass(frozen=True)
class OutputVerdict:
    """An output of the whole model, by the executor and by ONNX Runtime on the integer model, compared bit by bit.

    allowed: with a machine whose file allows differences, how large they may be; distance: the largest. mixed: elements that are others where several
    samples go through together than where each is alone, which no machine may do.
    """

    output: str
    elements: int
    differing: int
    distance: float = 0.0
    mixed: int = 0
    allowed: str = ""


@dataclass(frozen=True)
class StepsVerdict:
    """Steps in a row, states handed on, compared with ONNX Runtime bit by bit. elements: of all outputs and states of all steps. first: the first
    that differs, and where. stay: how many of the states stay on the device between steps."""

    steps: int
    elements: int
    differing: int
    first: str
    stay: int
    states: int


@dataclass(frozen=True)
class ModelVerdict:
    """images: compared in every region, in one or several runs of its program. outputs: of the whole model.

    errors: of the integer network against the float one, worst first. closeness: the same in short. integers: whether there is an integer network;
    else all is compared with the float one. steps: of a model with states on machines that compute exactly, None for others.
    """

    model: str
    machine: str
    images: int
    regions: tuple[RegionVerdict, ...]
    outputs: tuple[OutputVerdict, ...]
    errors: tuple[TensorError, ...]
    closeness: Closeness
    integers: bool = True
    steps: StepsVerdict | None = None

    @property
    def exact(self) -> bool:
        """Whether all is right, and the same bits."""
        return self.right and not self.allowed

    @property
    def right(self) -> bool:
        """Whether all is as it has to be."""
        stepped = self.steps is None or not self.steps.differing
        return stepped and all(region.right for region in self.regions) and not any(output.differing or output.mixed for output in self.outputs)

    @property
    def allowed(self) -> str:
        """How far results may be from the expected ones, and why, by the file of one of the machines; empty where all have to be the same bits."""
        return next((region.allowed for region in self.regions if region.allowed), "")

    @property
    def beside(self) -> bool:
        """Whether regions compute in floating arithmetic of their own, to the bit."""
        return any(region.beside for region in self.regions)

    @property
    def tensors(self) -> int:
        """How many tensors of all regions were compared."""
        return sum(len(region.compared) for region in self.regions)


SHOWN = 5
WORST = 3


def verdict_data(verdict: ModelVerdict) -> dict[str, Tree]:
    """The verdict as JSON holds it; a tensor without any noise has no number of dB. compared: whether a machine computes anything of it."""
    errors = [{**asdict(row), "sqnr": None if math.isinf(row.sqnr) else round(row.sqnr, 3)} for row in verdict.errors]
    told = {"exact": verdict.exact, "right": verdict.right, "allowed": verdict.allowed, "compared": bool(verdict.regions)}
    return {**told, **asdict(verdict), "errors": errors}


@dataclass(frozen=True)
class Verified:
    """The part of a verdict that reports show. right, allowed: as in a verdict. tensors: how many were compared. noise: signal to noise in dB by
    tensor, the worst first, None without noise. made: the same of the tensors that an operation makes, the worst of them, by operation."""

    right: bool
    tensors: int
    closeness: Closeness
    noise: tuple[tuple[str, float | None], ...]
    allowed: str = ""
    made: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True)
class _Noise:
    tensor: str
    sqnr: float | None


@dataclass(frozen=True)
class _Made:
    tensor: str
    after: str


def read_verified(text: str) -> Verified:
    """Out of the JSON of `verdict_data`. Raises KeyError, TypeError or ValueError for anything else."""
    data: dict[str, Any] = json.loads(text)
    found = [from_json(_Noise, {"tensor": row["tensor"], "sqnr": row["sqnr"]}, "errors") for row in data["errors"]]
    tensors = sum(len(region["compared"]) for region in data["regions"])
    noise = tuple((row.tensor, row.sqnr) for row in found)
    right, allowed = from_json(bool, data["right"], "right"), from_json(str, data["allowed"], "allowed")
    pairs = [from_json(_Made, {"tensor": row["tensor"], "after": row["after"]}) for region in data["regions"] for row in region["compared"]]
    return Verified(right, tensors, from_json(Closeness, data["closeness"]), noise, allowed, _by_operation(pairs, dict(noise)))


def _by_operation(pairs: Sequence[_Made], noise: Mapping[str, float | None]) -> dict[str, float]:
    """A stored tensor has the name of the float one and its type behind a dot."""
    found: dict[str, float] = {}
    for each in pairs:
        value = noise.get(each.tensor.rpartition(".")[0])
        if each.after and value is not None:
            found[each.after] = min(value, found.get(each.after, value))
    return found


def verdict_text(verdict: ModelVerdict, calibrated: str = "", warn: bool = True) -> str:
    """Plain text: one line a region, more where something is wrong. calibrated: where the ranges of the integers come from.

    warn: of integers far from floating point, which made-up samples say nothing of.
    """
    told = map(one_line, _lines(verdict, warn))  # a tensor's name may have a line's end in it
    return "\n".join([*told, *([f"calibrated {calibrated}"] if calibrated else [])]) + "\n"


def _lines(verdict: ModelVerdict, warn: bool) -> Iterator[str]:
    elements = sum(item.elements for region in verdict.regions for item in region.compared)
    word = ("close" if verdict.right else "NOT CLOSE") if verdict.allowed else ("exact" if verdict.exact else "NOT EXACT")
    compared = f"{verdict.tensors} tensors of {verdict.images} image{'s' if verdict.images > 1 else ''}, {elements} elements"
    other = ("the machine's own arithmetic" if verdict.beside else "the integer network") if verdict.integers else "ONNX Runtime"
    if verdict.regions:
        yield f"{verdict.model} on {verdict.machine}: {word}; {compared}, compared with {other}"
    else:
        yield f"{verdict.model} on {verdict.machine}: nothing runs on the machine, so there is nothing to compare with {other}"
        yield "warning: no tensor of a machine was compared; `explain` says why nodes are on the host, and fallback=no makes an error of it"
    for region in verdict.regions:
        yield from _region(region)
    for output in verdict.outputs:
        yield _output(output, "ONNX Runtime on the integer model" if verdict.integers else "ONNX Runtime", bool(output.allowed or verdict.allowed))
        if output.mixed:
            yield f"output {output.output}: {output.mixed} elements are OTHERS where several samples go through together than where each is alone"
    if verdict.steps:
        yield _steps(verdict.steps)
    yield from _noise(verdict, warn) if verdict.integers else ()


def _steps(found: StepsVerdict) -> str:
    told = f"{found.steps} steps in a row, {found.stay} of {found.states} states kept on the device"
    if found.differing:
        return f"{told}: {found.differing} of {found.elements} elements DIFFER from ONNX Runtime on the integer model, first {found.first}"
    return f"{told}: all {found.elements} elements of outputs and states equal ONNX Runtime on the integer model, bit for bit"


def _noise(verdict: ModelVerdict, warn: bool) -> Iterator[str]:
    if verdict.closeness.text():
        yield f"integers against floating point: {verdict.closeness.text()}"
    if len(verdict.errors) > 1:
        worst = ", ".join(f"{row.tensor} {row.sqnr:.1f} dB" for row in verdict.errors[:WORST])
        yield f"worst of {len(verdict.errors)} tensors: {worst}"
    yield from (f"warning: {text}" for text in verdict.closeness.warnings() if warn)


def _region(region: RegionVerdict) -> Iterator[str]:
    equal, near = sum(item.difference is None for item in region.compared), "close" if region.allowed else "equal"
    races = f"{len(region.hazards)} hazards" if region.hazards else _races(region.tolerated)
    tensors = f"{equal} of {len(region.compared)} tensors {near}"
    if region.sampled is None:
        yield f"region {region.region}: {region.instructions} {region.told}; {tensors}"
        if region.allowed:
            yield f"  the largest difference is {max((item.distance for item in region.compared), default=0.0):.2g}, allowed are {region.allowed}"
    else:
        yield f"region {region.region}: {region.instructions} instructions, {races}; {tensors}; {_sampled(region.sampled)}"
    if region.beside:
        yield f"  {region.beside}"
    yield from _shortened([f"  {text}" for text in region.hazards], "hazards")
    if region.difference:
        yield from _difference(region.difference, region.sampled is not None)
    if not region.ordered:
        yield "  an order in which the units issue leaves other outputs than the order of the schedule"
    yield from _disagreement(region.sampled) if region.sampled else ()
    yield from _shortened([f"  not compared: {name}: {why}" for name, why in region.unseen], "tensors that are not compared")
    yield from _shortened([f"  {text}" for text in region.warnings], "warnings")


def _races(tolerated: int) -> str:
    if not tolerated:
        return "no race, no deadlock"
    hazards, called = ("hazards", "warnings") if tolerated > 1 else ("hazard", "a warning")
    return f"no deadlock, {tolerated} {hazards} that the machine's file calls {called}"


def _sampled(sampled: Sampled) -> str:
    if sampled.disagreement:
        return "the reference engine DISAGREES"
    if sampled.instructions == sampled.of:
        return "the reference engine agrees on the whole program"
    return f"the reference engine agrees on {sampled.instructions} sampled instructions, {sampled.elements} elements"


def _difference(found: Difference, instructions: bool) -> Iterator[str]:
    """instructions: whether the region has any."""
    place = ", ".join(map(str, found.coordinates))
    yield f"  first difference: tensor {found.tensor}[{place}] is {found.found}, expected {found.expected}; {found.differing} elements differ"
    if found.operation:
        yield f"  operation {found.operation}, from {', '.join(found.nodes) or 'no node'}; whatever it reads was equal, as far as it is compared"
    if found.writer is None:
        yield from ["  no instruction wrote this element"] if instructions else []
        return
    yield f"  {found.writer.place} was last written by {found.writer.instruction} ({found.writer.label})"
    yield from (f"    from {text}" for text in found.writer.before)


def _disagreement(sampled: Sampled) -> Iterator[str]:
    found = sampled.disagreement
    if found:
        after = f" after {found.instruction} ({found.label})" if found.instruction else ""
        yield f"  {found.memory}{after}: the reference engine leaves {found.reference}, the fast engine {found.fast}"


def _shortened(lines: list[str], what: str) -> Iterator[str]:
    yield from lines[:SHOWN]
    if len(lines) > SHOWN:
        yield f"  and {len(lines) - SHOWN} more {what}"


def _output(output: OutputVerdict, other: str, near: bool) -> str:
    if near and output.differing:
        far = f"{output.differing} of {output.elements} elements"
        return f"output {output.output}: {far} are FURTHER from {other} than allowed, one by {output.distance:.2g}"
    if near:
        return f"output {output.output}: all {output.elements} elements as near {other} as allowed, the furthest {output.distance:.2g} away"
    if output.differing:
        return f"output {output.output}: {output.differing} of {output.elements} elements DIFFER from {other}"
    return f"output {output.output}: all {output.elements} elements equal {other}, bit for bit"
