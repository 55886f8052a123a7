"""All embeddings of a region's group templates with their prices, and the covers that follow: the data of `tilewright fusion list`."""

from collections.abc import Mapping
from dataclasses import dataclass

from toolchain.schedule.search.cover import COVERS, Cover
from toolchain.schedule.search.draft import Space
from toolchain.schedule.search.learned import oracle_named
from toolchain.schedule.search.policies import cover_problem
from toolchain.schedule.search.prices import Prices
from toolchain.schedule.search.templates import Embedding, find_embeddings, fusion_graph, load_templates


@dataclass(frozen=True)
class PricedGroup:
    """An embedding. operations: their names, in order. apart, together: cycles. saved_bytes: of tensors that stay on chip."""

    template: str
    operations: tuple[str, ...]
    apart: float
    together: float
    saved_bytes: int


@dataclass(frozen=True)
class Listing:
    """embeddings: in the order of the templates. covers: by name. apart: cycles of all operations alone."""

    region: str
    embeddings: tuple[PricedGroup, ...]
    covers: Mapping[str, Cover]
    apart: float


def list_embeddings(space: Space, oracle: str) -> Listing:
    """oracle: as `ORACLES` names it, or the file of a learnt one. Raises UserError E1202 for another, E1011 for a template that is wrong, and as
    `read_oracle`."""
    prices = Prices(space, oracle_named(oracle, space.machine))
    found = find_embeddings(load_templates(space.machine), fusion_graph(space.region))
    problem = cover_problem(prices, found)
    rows = tuple(_row(prices, problem.alone, each) for each in found if each.members in problem.groups)
    return Listing(space.region.name, rows, {name: solve(problem) for name, solve in COVERS.items()}, sum(problem.alone.values()))


def _row(prices: Prices, alone: Mapping[int, float], found: Embedding) -> PricedGroup:
    names = tuple(prices.space.region.operations[index].operation.name for index in found.members)
    apart = sum(alone[index] for index in found.members)
    return PricedGroup(found.template, names, apart, prices.of(found.members) or apart, prices.saved_bytes(found.members))
