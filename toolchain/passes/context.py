"""The form of a pass, and all that passes know besides the graph: machines, options, calibration, the user's wishes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import ClassVar, Literal

import onnx_ir as ir

from toolchain.graph.integers.calls import Reasons
from toolchain.graph.integers.functions import INTEGER
from toolchain.graph.quantisation.table import Samples, Table
from toolchain.operations.library import Kinds, builtin_kinds
from toolchain.passes.templates import Template
from toolchain.spec.arrays import Array
from toolchain.spec.model import RegionLimits
from toolchain.spec.model.quantisation import Numerics
from toolchain.spec.reason import Reason
from toolchain.spec.reasons import Why

Policy = Literal["pays", "all", "least"]


@dataclass(frozen=True)
class Price:
    """Milliseconds of one sample. host: for the same operations on the host, in floating point. machine: the least that the machine can take.

    border: conversions between floating point and integers, transfers and launches.
    """

    host: float
    machine: float
    border: float


@dataclass(frozen=True)
class NodeCost:
    """Milliseconds of one sample. host: in floating point. machine: the least that it can take."""

    host: float
    machine: float


@dataclass(frozen=True)
class Tariff:
    """The costs of which prices are sums. node: of an integer call. crossing: of a tensor that goes from the machine to the host, or the other way,
    and is converted there, in milliseconds of one sample."""

    node: Callable[[ir.Node], NodeCost]
    crossing: Callable[[ir.Value], float]


def _unsettled(model: ir.Model, call: ir.Node) -> None:
    del model, call


def _unpriced(nodes: Sequence[ir.Node]) -> Price | None:  # noqa: ARG001
    return None


def _unknown(node: ir.Node) -> Reason | None:  # noqa: ARG001
    return None


@dataclass(frozen=True)
class Device:
    """A machine that takes operations. refuses: why it does not take an integer call of the graph; none where it does.

    prices: a region, given by its calls; None where the machine's file has no costs of the host, as tariff is then.
    computes: names of the operations that it may take; None where nothing is known of that.
    settles: writes into the function of a region, given by its call, which kernel does each operation of it. domain: of its integer functions.
    limits: the most that a region may have. recurrence: why an operator of ONNX's that steps through a sequence is on the host, with prices; None
    for other operators, and where the machine's file has no costs of the host. block: a tensor can begin inside another at multiples of so many
    channels.
    """

    name: str
    refuses: Callable[[ir.Node], Reasons]
    prices: Callable[[Sequence[ir.Node]], Price | None] = _unpriced
    computes: frozenset[str] | None = None
    settles: Callable[[ir.Model, ir.Node], None] = _unsettled
    domain: str = INTEGER
    tariff: Tariff | None = None
    limits: RegionLimits = field(default_factory=RegionLimits)
    recurrence: Callable[[ir.Node], Reason | None] = _unknown
    block: int = 1

    def may_compute(self, operation: str) -> bool:
        """Whether it has a kernel for an operation, or nothing is known of its kernels."""
        return self.computes is None or operation in self.computes

    @property
    def floats(self) -> bool:
        """Whether it computes ONNX's own operators, in floating point."""
        return not self.domain


@dataclass(frozen=True)
class Wish:
    """Nodes that the user places. patterns: of names and operators. machine: the only one that may have them, empty for the host. reason: for a
    node that another machine would have had."""

    patterns: tuple[str, ...]
    machine: str
    reason: Reason


Results = Sequence[Mapping[str, Array]]
"""Samples one by one: inputs or outputs by name."""


@dataclass(frozen=True)
class Judge:
    """budget: the share of the float network's work that integers may lose, infinite for any. loss: the share that they lose, by samples, the float
    network's outputs and theirs. noise: the same by the energy of the outputs alone."""

    budget: float
    loss: Callable[[Results, Results, Results], float]
    noise: Callable[[Results, Results], float]


def _silent(text: str) -> None:
    del text


@dataclass(frozen=True)
class Context:
    """place: the model's path as messages print it. templates: a machine's fusion templates; none means the default ones.

    numerics: of the machine to quantise for. table: calibration's statistics of the float network. samples: its inputs.
    device: the machine that regions are made for; without one everything stays on the host. before: machines that had the first choice.
    further: whether another one is asked after it.
    wishes: of the user about where nodes are; the first that fits a node holds.
    policy: which regions are made, see `place_calls`. recorded: whether the samples are real ones.
    say: tells the user how far a long pass has come.
    kinds: the operations that there are.
    judge: of the loss by integers; None where nothing measures it. states: by input, the output that is this input in the next step.
    """

    place: str = ""
    templates: tuple[Template, ...] = ()
    numerics: Numerics | None = None
    table: Table | None = None
    samples: Samples | None = None
    device: Device | None = None
    before: tuple[Device, ...] = ()
    further: bool = False
    wishes: tuple[Wish, ...] = ()
    policy: Policy = "pays"
    recorded: bool = False
    say: Callable[[str], None] = _silent
    kinds: Kinds = field(default_factory=builtin_kinds)
    judge: Judge | None = None
    states: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def devices(self) -> tuple[Device, ...]:
        """Every machine that may have operations by now, in the order of their choice."""
        return (*self.before, *((self.device,) if self.device else ()))

    @property
    def domain(self) -> str:
        """The domain of the machine's integer functions."""
        return self.device.domain if self.device else INTEGER


@dataclass(frozen=True)
class Pass:
    """A rewriting of the graph. requires: properties that must hold before; ensures: those that hold after (see contracts)."""

    name: ClassVar[str] = ""
    requires: ClassVar[tuple[str, ...]] = ()
    ensures: ClassVar[tuple[str, ...]] = ()

    def run(self, model: ir.Model, context: Context) -> ir.Model:
        """The rewritten model, which may be the same object."""
        raise NotImplementedError(self.name)


def keep(patterns: Sequence[str]) -> Wish:
    """As the model's file says."""
    return Wish(tuple(patterns), "", Why.KEPT())


def give(patterns: Sequence[str], machine: str) -> Wish:
    """As the model's file says."""
    return Wish(tuple(patterns), machine, Why.GIVEN(owner=machine))


def rule(patterns: Sequence[str], machine: str, because: str) -> Wish:
    """As the deployment says. machine: empty for the host."""
    return Wish(tuple(patterns), machine, Why.RULED(owner=machine, note=because) if machine else Why.RULED_HOST(note=because))


def keeps(reasons: Sequence[Reason]) -> bool:
    """Whether the user has said that a node is on the host."""
    return any(Why.KEPT.gave(reason) or Why.RULED_HOST.gave(reason) for reason in reasons)


def fits(node: ir.Node, patterns: Sequence[str]) -> bool:
    """Whether a node's name or operator fits one of the patterns; `*` and `?` stand for any text and any character."""
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in (node.name or "", node.op_type))


def wish_for(nodes: Sequence[ir.Node], wishes: Sequence[Wish]) -> Wish | None:
    """The first that fits one of the nodes."""
    return next((wish for wish in wishes if any(fits(node, wish.patterns) for node in nodes)), None)
