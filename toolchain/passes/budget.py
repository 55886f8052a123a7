"""A model's budget of accuracy: calls whose integers cost the outputs more than it stay on the host, by their measured effect.

Every call of the float network gets a switch between floating point and its integers, so that one session measures them all: first each alone, then
those that are left together. Errors of different calls are taken to add up, which the last measurement corrects.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import onnx_ir as ir

from toolchain.graph.integers.calls import SCALE, boundary_call, is_candidate, read_call, zero_of
from toolchain.graph.integers.functions import is_integer, use_float_products
from toolchain.graph.quantisation.ranges import rounded
from toolchain.graph.quantisation.stepping import Relay, open_relay
from toolchain.graph.quantisation.table import Samples, sample_at, sample_count
from toolchain.graph.rewrite import add_constant, constant
from toolchain.graph.session import ONCE, run_session
from toolchain.graph.store import open_model
from toolchain.graph.work import node_macs
from toolchain.operations.library import Kinds
from toolchain.passes.context import Judge, Results, Tariff
from toolchain.spec.model.quantisation import Numerics
from toolchain.spec.on_cores import on_cores

MOST = 96
"""Groups of calls that are measured one by one; in a larger network neighbours form groups."""
SAMPLES = 4
"""Samples on which each group is measured."""
HELD = 8
"""The most samples on which a whole network is measured."""
ENOUGH = 10
"""Samples from which on a fifth of them is held out."""
MACS = 1 << 33
"""Multiply-accumulates of a network on all samples of one measurement; fewer samples where it has more, at least one."""
ALONE_MACS = 1 << 37
"""Multiply-accumulates of the measurements of all groups; with more, each is measured on fewer samples, at least one."""
DIGITS = 2
"""Significant decimal digits of a measured error: it does not depend on a processor's order of adding up."""
SPARE = 0.5
"""The share of the budget that calls may use up where some are left out: other samples have larger errors than those measured."""
ROUNDS = 6
"""Measurements of all calls that are left together."""


@dataclass(frozen=True)
class Costly:
    """A call that stays in floating point. share: of the outputs' energy, that its integers alone put them off by. ms: that it costs on the host
    more than on the machine, of one sample; None where the machine's file does not say."""

    name: str
    share: float
    ms: float | None


@dataclass(frozen=True)
class Trials:
    """Holds integer networks against the float one. samples: to measure on; learnt: how many of the first samples may be fitted to. floating: the
    float network; calls of it that are left to the host later do not change it."""

    judge: Judge
    samples: Samples
    learnt: int
    floating: ir.Model
    place: str

    @cached_property
    def _floats(self) -> tuple[Results, Results]:
        """Samples of a measurement of a whole network, and the float network's outputs on them."""
        samples = self.few(self.floating, HELD)
        given = [sample_at(samples, number) for number in range(sample_count(samples))]
        return given, self._results(self.floating, given)

    def measured(self, integer: ir.Model) -> tuple[float, float]:
        """The loss and the noise of an integer network, both rounded."""
        given, wanted = self._floats
        found = self._results(integer, given)
        return rounded(self.judge.loss(given, wanted, found), DIGITS), rounded(self.judge.noise(wanted, found), DIGITS)

    def _results(self, model: ir.Model, given: Results) -> Results:
        session = open_model(use_float_products(model.clone()), place=self.place, optimise=False, threads=ONCE)
        return on_cores(lambda one: run_session(session, one, place=self.place), given)

    def few(self, model: ir.Model, most: int, macs: int = MACS) -> Samples:
        """The first samples, as many as a measurement of a network of `macs` multiply-accumulates takes, at most `most`."""
        count = max(min(most, macs // max(sum(node_macs(node) for node in model.graph), 1)), 1)
        return {name: array[:count] for name, array in self.samples.items()}


@dataclass(frozen=True)
class Held:
    """samples: that a method does not look at, at most HELD. learnt: how many of the first it looks at; all of them where there are very few."""

    samples: Samples
    learnt: int


def held_out(samples: Samples, used: int) -> Held:
    """used: samples that a method would look at. Those behind them are held out, else the last fifth; of very few none, which then measure, too."""
    count = sample_count(samples)
    learnt = used if count > used else count - min(count // 5, HELD) if count >= ENOUGH else count
    first = learnt if learnt < count else 0
    return Held({name: array[first : first + HELD] for name, array in samples.items()}, learnt)


def costly_calls(floating: ir.Model, integer: ir.Model, trials: Trials, numerics: Numerics, kinds: Kinds, tariff: Tariff | None) -> list[Costly]:
    """The calls to leave so that the rest keeps the budget, those first that cost the outputs most for the time that they save.

    floating: the fused network. integer: the same, with calls of the same names in integers.
    """
    groups = _groups([node for node in floating.graph if node.name in _calls(integer)])
    few = trials.few(floating, SAMPLES, min(MACS, ALONE_MACS // max(len(groups), 1)))
    board = _board(switchboard(floating, integer, numerics, kinds), trials, few)
    effects = on_cores(lambda group: board.effect([node.name or "" for node in group]), groups)
    prices = [_price(group, integer, tariff) for group in groups]
    order = sorted(range(len(groups)), key=lambda k: (-effects[k] / max(prices[k], 1e-9), k))
    taken = _enough(order, effects, [[node.name or "" for node in group] for group in groups], board, trials.judge.budget)
    return [Costly(node.name or "", effects[k], prices[k] if tariff else None) for k in sorted(taken) for node in groups[k]]


def _enough(order: Sequence[int], effects: Sequence[float], names: Sequence[Sequence[str]], board: "_Board", budget: float) -> set[int]:
    """The first groups of an order, as few as leave the others within the budget."""
    worse, taken = 1.0, list[int]()
    for _ in range(ROUNDS):
        rest = [k for k in order if k not in taken]
        while rest and worse * sum(effects[k] for k in rest) > SPARE * budget:
            taken.append(rest.pop(0))
        found = board.effect([name for k in rest for name in names[k]])
        if not rest or found <= SPARE * budget:
            break
        worse = max(found / max(sum(effects[k] for k in rest), 1e-30), 1.25 * worse)
    else:
        taken = list(order)
    return set(taken)


def _calls(integer: ir.Model) -> dict[str, ir.Node]:
    """Integer calls by name, conversions included, which have other names."""
    return {node.name or "": node for node in integer.graph if is_integer(node)}


def _groups(nodes: Sequence[ir.Node]) -> list[list[ir.Node]]:
    """Each by itself, or neighbours together where there are too many."""
    size = -(-len(nodes) // MOST) if nodes else 1
    return [list(nodes[first : first + size]) for first in range(0, len(nodes), size)]


def _price(group: Sequence[ir.Node], integer: ir.Model, tariff: Tariff | None) -> float:
    """Milliseconds that the machine saves; without a tariff, multiply-accumulates and one for each result."""
    calls = _calls(integer)
    if tariff is None:
        return float(sum(node_macs(node) + 1 for node in group))
    costs = [tariff.node(calls[node.name or ""]) for node in group]
    return sum(max(cost.host - cost.machine, 0.0) for cost in costs)


@dataclass(frozen=True)
class _Board:
    """A network with switches, opened. plain: by sample, the outputs of a run with all of them off."""

    relay: Relay
    judge: Judge
    plain: Results

    def effect(self, names: Sequence[str]) -> float:
        """The share of the outputs' energy that integers of some calls put them off by."""
        floats, found = ([self.relay.results(each) for each in runs] for runs in (self.plain, self.run(names)))
        return rounded(self.judge.noise(floats, found), DIGITS)

    def run(self, names: Sequence[str]) -> Results:
        """With the switches of some calls on."""
        on = {switch_of(name): np.array(True) for name in names}
        return [self.relay.rerun(each, on) for each in self.plain]


def _board(model: ir.Model, trials: Trials, samples: Samples) -> _Board:
    relay = open_relay(model, node_macs, trials.place)
    off = {value.name or "": np.array(False) for value in model.graph.inputs if (value.name or "").startswith(SWITCH)}
    return _Board(relay, trials.judge, [relay.run({**sample_at(samples, number), **off}) for number in range(sample_count(samples))])


SWITCH = "tilewright.integers/"
"""Stands before the name of a call in that of its switch, an input that is true or false."""


def switch_of(name: str) -> str:
    return SWITCH + name


def switchboard(floating: ir.Model, integer: ir.Model, numerics: Numerics, kinds: Kinds) -> ir.Model:
    """A copy of a fused network in which every call that has integers computes in them where its switch is on."""
    quick = use_float_products(integer.clone())
    model, calls = floating.clone(), _calls(quick)
    for node in list(model.graph):
        twin = calls.get(node.name or "") if is_candidate(node) else None
        if twin is not None:
            _add_switch(model, node, twin, quick, numerics, len(read_call(node, kinds).data))
    return model


def _add_switch(model: ir.Model, node: ir.Node, twin: ir.Node, integer: ir.Model, numerics: Numerics, data: int) -> None:
    """twin: the integer call. data: operands that are no weights."""
    result, flag = node.outputs[0], ir.Value(name=switch_of(node.name or ""), type=ir.TensorType(ir.DataType.BOOL), shape=ir.Shape([]))
    model.graph.inputs.append(flag)
    if twin.op_identifier() not in model.functions:
        model.functions[twin.op_identifier()] = integer.functions[twin.op_identifier()].clone()
    inside = list(_in_integers(model, node, twin, numerics, data))
    switch = ir.node("If", [flag], name=f"{node.name}.switch", num_outputs=1)
    switched = switch.outputs[0]
    switched.name, switched.type, switched.shape = result.name, result.type, result.shape
    result.replace_all_uses_with(switched, replace_graph_outputs=True)
    model.graph.insert_after(node, switch)
    model.graph.remove(node)
    result.name = f"{node.name}.plain"  # computed in the branch: handed through, it would be copied
    for name, branch in (("then_branch", inside), ("else_branch", [node])):
        switch.attributes[name] = ir.AttrGraph(name, _branch(branch, result))


def _in_integers(model: ir.Model, node: ir.Node, twin: ir.Node, numerics: Numerics, data: int) -> Iterator[ir.Node]:
    """Conversions of the operands, the call, and the conversion of its result."""
    stored = list[ir.Value]()
    for value, like in zip(node.inputs[:data], twin.inputs[:data], strict=True):
        assert value is not None
        assert like is not None
        limits = {"low": numerics.activation.low, "high": numerics.activation.high}
        attributes = {"scale": _scale(like), "zero_y": zero_of(like), **limits}
        made = boundary_call(model, "quantize", [value], attributes, f"{node.name}.in{len(stored)}", numerics, twin.domain)
        made.outputs[0].name = f"{node.name}.in{len(stored)}"
        stored.append(made.outputs[0])
        yield made
    known = [add_constant(model.graph, f"{node.name}.known", array) for value in twin.inputs[data:] if (array := constant(value)) is not None]
    call = ir.Node(twin.domain, twin.op_type, [*stored, *known], twin.attributes.values(), num_outputs=1, name=f"{node.name}.integers")
    call.outputs[0].name = f"{node.name}.stored"
    yield call
    output, dtype = twin.outputs[0], node.outputs[0].dtype
    called = "dequantize" if dtype in (None, ir.DataType.FLOAT) else f"dequantize__{int(dtype or ir.DataType.FLOAT)}"
    attributes = {"scale": _scale(output), "zero_x": zero_of(output)}
    made = boundary_call(model, called, [call.outputs[0]], attributes, f"{node.name}.out", numerics, twin.domain)
    made.outputs[0].name = f"{node.name}.out"
    yield made


def _branch(nodes: Sequence[ir.Node], like: ir.Value) -> ir.Graph:
    output = nodes[-1].outputs[0]
    output.name, output.type, output.shape = output.name or f"{like.name}.same", like.type, like.shape
    return ir.Graph([], [output], nodes=nodes, name=f"{nodes[-1].name}.branch")


def _scale(value: ir.Value) -> float:
    return float.fromhex(value.metadata_props[SCALE])
