"""A learnt oracle: the price of a group from the facts of its estimate, fitted to the exact cycles of groups of other networks.

Xing et al. (2019), section 5.1, also price groups by a model that is trained on measurements. Here a ridge regression on the facts, their squares and
products says by which factor the closed form of the tile search is off: it sums operations one by one, and a program runs several units at once.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import exp, log
from pathlib import Path

import numpy as np

from toolchain.schedule.planner import Planner
from toolchain.schedule.search.draft import Space
from toolchain.schedule.search.prices import ORACLES, Prices, compute_cycles, dram_cycles, exact, untimed
from toolchain.schedule.search.templates import find_embeddings, fusion_graph, load_templates
from toolchain.schedule.tiling.tiles import unit_cycles
from toolchain.spec.arrays import Reals
from toolchain.spec.errors import UserError, fail, nearest
from toolchain.spec.files import read_limited
from toolchain.spec.model import Machine
from toolchain.spec.typed_json import from_json, to_json
from toolchain.spec.yaml_nodes import MAX_BYTES

FORMAT = 1
RIDGE = 0.1
"""The penalty on a weight, for each sample (of 1e-3 to 0.1 the best on networks that were left out, on zu2)."""
FAR = 3.0
"""Standard deviations at which a fact that lies further out is held: beyond the groups that were seen a polynomial says anything."""
DIGITS = 9
"""Digits that are kept of a number, so that the file does not depend on a processor's order of adding up."""


@dataclass(frozen=True)
class Facts:
    """estimate: cycles by the closed form. values: the facts of one group, shares of it for the most part."""

    estimate: float
    values: tuple[float, ...]


@dataclass(frozen=True)
class Sample:
    """A group with its exact cycles."""

    facts: Facts
    cycles: float


@dataclass(frozen=True)
class Deviation:
    """Deviations of prices from exact cycles, as shares of these: means and the largest. plain: of the closed form."""

    groups: int
    mean: float
    worst: float
    plain_mean: float
    plain_worst: float


@dataclass(frozen=True)
class LearnedOracle:
    """machine: its name. units: by which facts are told. mean, spread: of each fact. weights: of 1, the facts, and their products. format: of the
    file."""

    machine: str
    units: tuple[str, ...]
    groups: int
    mean: tuple[float, ...]
    spread: tuple[float, ...]
    weights: tuple[float, ...]
    format: int = FORMAT

    def price(self, planner: Planner) -> float:
        """Cycles of the planner's region."""
        return self.priced(facts_of(planner))

    def priced(self, facts: Facts) -> float:
        """Cycles of a group."""
        scaled = (np.array([facts.values]) - self.mean) / self.spread
        return facts.estimate * exp(float((_products(np.clip(scaled, -FAR, FAR)) @ np.array(self.weights))[0]))

    def deviation(self, samples: Sequence[Sample]) -> Deviation:
        """samples: at least one."""
        learnt = np.array([abs(self.priced(each.facts) / each.cycles - 1) for each in samples])
        plain = np.array([abs(each.facts.estimate / each.cycles - 1) for each in samples])
        return Deviation(len(samples), *(float(number) for number in (learnt.mean(), learnt.max(), plain.mean(), plain.max())))

    def text(self) -> str:
        """The file."""
        return json.dumps(to_json(self), indent=1) + "\n"


def facts_of(planner: Planner) -> Facts:
    """Facts of a region as a group. Raises UserError E1003, E1004, E1007, E1008 where it has no plan."""
    found, machine, region = untimed(planner).first(), planner.machine, planner.region
    parts = [tiling.estimate for _, tiling in found.alone] + [proposal.cycles for proposal in found.chosen]
    each = [*found.alone, *(pair for proposal in found.chosen for pair in zip(proposal.problems, proposal.tilings, strict=True))]
    cycles = [unit_cycles(problem, tiling) for problem, tiling in each]
    whole, busy = sum(parts), _sums(cycles)
    longest = sum(max(own.values(), default=0.0) for own in cycles)
    count, shares = len(region.operations), [busy.get(unit.name, 0.0) / whole for unit in machine.units]
    bounds = [compute_cycles(machine, region) / whole, dram_cycles(machine, region) / whole]
    sums = [longest / whole, max(shares), sum(shares), max(parts) / whole]
    return Facts(whole, (*shares, *sums, *bounds, log(whole), 1 / count, count / whole, float(len(found.chosen))))


def _sums(each: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """By unit."""
    found: dict[str, float] = {}
    for own in each:
        for unit, cycles in own.items():
            found[unit] = found.get(unit, 0.0) + cycles
    return found


def draw_samples(space: Space) -> Iterator[Sample]:
    """Every operation alone and every place where a template fits, equal ones once, each with the cycles of its program. Raises UserError E1011 for a
    template that is wrong."""
    prices, known = Prices(space), set[object]()
    places = [embedding.members for embedding in find_embeddings(load_templates(space.machine), fusion_graph(space.region))]
    for members in [*((index,) for index in space.graph), *places]:
        key = prices.key(tuple(members))
        if key not in known:
            known.add(key)
            try:
                planner = prices.planner(members)
                yield Sample(facts_of(planner), exact(planner))
            except UserError:
                continue  # a place that cannot be a region of its own has no price


def learn(machine: Machine, samples: Sequence[Sample]) -> LearnedOracle:
    """The least squares of the logarithms of exact over estimated cycles. Raises UserError E1012 for too few samples."""
    if len(samples) < 2:
        raise fail("E1012", f"{len(samples)} groups are too few to learn from", hint="name models with more operations on the machine")
    values = np.array([each.facts.values for each in samples])
    mean, spread = _rounded(values.mean(0)), _rounded(np.where(values.std(0) > 0, values.std(0), 1.0))
    seen = _products(np.clip((values - mean) / spread, -FAR, FAR))
    wanted = np.log([each.cycles / each.facts.estimate for each in samples])
    weights = np.linalg.solve(seen.T @ seen + RIDGE * len(samples) * np.eye(seen.shape[1]), seen.T @ wanted).astype(np.float64)
    units = tuple(unit.name for unit in machine.units)
    return LearnedOracle(machine.name, units, len(samples), tuple(mean), tuple(spread), tuple(_rounded(weights)))


def _products(values: Reals) -> Reals:
    """[samples, 1 + facts + pairs]: one, each fact, and the products of each two."""
    count = values.shape[1]
    pairs = [values[:, one] * values[:, other] for one, other in combinations_with_replacement(range(count), 2)]
    return np.stack([np.ones(len(values)), *values.T, *pairs], 1)


def _rounded(numbers: Reals) -> list[float]:
    return [float(f"{number:.{DIGITS}g}") for number in numbers]


def read_oracle(path: Path, machine: Machine) -> LearnedOracle:
    """Raises UserError E0001 and E0330 for a file that cannot be read, E1012 for one that is no oracle, or that of another machine."""
    try:
        given: object = json.loads(read_limited(path, MAX_BYTES, "the oracle"))
        found = from_json(LearnedOracle, given)
        facts = len(found.mean)
        whole = len(found.spread) == facts and len(found.weights) == 1 + facts + facts * (facts + 1) // 2
        if found.format != FORMAT or not whole or min(found.spread, default=1.0) <= 0:
            raise ValueError
    except (KeyError, TypeError, ValueError, RecursionError):
        raise fail("E1012", "this is not as `tilewright fusion learn` writes it", hint="learn it again", place=str(path)) from None
    if (found.machine, found.units) != (machine.name, tuple(unit.name for unit in machine.units)):
        text = f"this oracle was learnt for machine '{found.machine}' with the units {', '.join(found.units)}"
        raise fail("E1012", text, hint=f"learn one for '{machine.name}': tilewright fusion learn target={machine.name} model=...", place=str(path))
    return found


def oracle_named(name: str, machine: Machine) -> Callable[[Planner], float]:
    """name: of `ORACLES`, or of the file of a learnt one. Raises UserError E1202 for an unknown name, and as `read_oracle`."""
    if name.endswith(".json"):
        return read_oracle(Path(name), machine).price
    if name not in ORACLES:
        raise fail("E1202", f"there is no oracle '{name}'", hint=nearest(name, ORACLES) or f"known: {', '.join(ORACLES)}, FILE.json")
    return ORACLES[name]
