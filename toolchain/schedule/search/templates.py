"""Group templates: the kinds of operations that may share a loop, and every place in a region where one fits, by subgraph isomorphism,
algorithm 1 of Xing et al. (2019).

Vertical and horizontal kernel fusion of Xing et al. (2019), section 4.1.3; their intrinsic and point-wise fusions happen in the graph, before
there are regions.

Candidates are filtered by kind and numbers, the search starts at the node of the template with the fewest, goes on along the template's edges breadth
first, and refines the candidates of each next node by the edges to the nodes that are matched already.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

import networkx as nx

from toolchain.operations.library import Kinds, kinds_of
from toolchain.operations.operation import Operation
from toolchain.schedule.kernels.kernel_file import kernel_path, kernel_source
from toolchain.schedule.regions.region import Region
from toolchain.schedule.search.cover import is_convex, operation_graph
from toolchain.spec.context import Context, Scope, problems
from toolchain.spec.errors import UserError, fail, nearest
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Expr
from toolchain.spec.files import PACKAGE, Contents, contents
from toolchain.spec.fingerprint import MachineKey
from toolchain.spec.model import Machine
from toolchain.spec.schema import validate
from toolchain.spec.yaml_nodes import Node, parse_yaml

SCHEMA = PACKAGE / "schemas" / "groups.schema.json"
DEFAULT = Path(__file__).with_name("templates.yaml")
FOLDER = "fusion"


@dataclass(frozen=True)
class TemplateNode:
    """kinds: of operations; none: any. where: a condition on an operation's numbers, where there is one."""

    kinds: frozenset[str]
    where: Expr | None

    def admits(self, operation: Operation) -> bool:
        """Whether an operation may stand here."""
        if self.kinds and operation.kind.name not in self.kinds:
            return False
        return self.where is None or bool(constant(self.where, operation.numbers))


@dataclass(frozen=True)
class Template:
    """nodes: by name. reads: (maker, reader). shares: pairs that read a common tensor."""

    name: str
    nodes: Mapping[str, TemplateNode]
    reads: tuple[tuple[str, str], ...]
    shares: tuple[tuple[str, str], ...]

    @property
    def direction(self) -> str:
        """As Xing et al. (2019) call it."""
        return "vertical" if not self.shares else "horizontal" if not self.reads else "both"


def load_templates(machine: Machine) -> tuple[Template, ...]:
    """The templates of targets/NAME/fusion/*.yaml, or the toolchain's. Raises UserError E01xx for a wrong file, E1011 for a wrong template."""
    kernels = kernel_path(machine)
    own = sorted((kernels.parent / FOLDER).glob("*.yaml")) if kernels else []
    paths = tuple(own or [DEFAULT])
    return _loaded(MachineKey(machine), paths, contents(paths[0].parent))


@lru_cache(maxsize=16)
def _loaded(key: MachineKey, paths: tuple[Path, ...], _files: Contents) -> tuple[Template, ...]:
    """Read once for each state of the files, as kernels are."""
    found: dict[str, Template] = {}
    for path in paths:
        for template, node in read_templates(key.machine, path):
            if template.name in found:
                raise fail("E1011", f"template '{template.name}' stands in two files", node.where())
            found[template.name] = template
    return tuple(found.values())


def read_templates(machine: Machine, path: Path) -> Iterable[tuple[Template, Node]]:
    """Each with its place in the file. Raises UserError E01xx and E1011."""
    root = parse_yaml(kernel_source(path))
    validate(root, SCHEMA)
    context, kinds = Context(root, machine.config, machine.params, {}), kinds_of(machine)
    return [(_template(context, kinds, name, node), node) for name, node in root.members("templates")]


def _template(context: Context, kinds: Kinds, name: str, node: Node) -> Template:
    nodes = {own: _node(context, kinds, each) for own, each in node.members("nodes")}
    reads, shares = (tuple(_pair(nodes, pair) for pair in node.entries(key)) for key in ("reads", "shares"))
    reached = {next(iter(nodes))}
    for _ in nodes:
        reached |= {b for pair in (*reads, *shares) for a, b in (pair, pair[::-1]) if a in reached}
    if reached != nodes.keys():
        alone = next(own for own in nodes if own not in reached)
        raise fail("E1011", f"'{alone}' of template '{name}' hangs together with none of the others", node.where(), "reads: or shares: joins them")
    return Template(name, nodes, reads, shares)


def _node(context: Context, kinds: Kinds, node: Node) -> TemplateNode:
    named: dict[str, Node] = {str(each.value): each for each in node.entries("computes")}
    unknown = next((kind for kind in named if kind not in kinds), None)
    if unknown is not None:
        raise fail("E1011", f"there is no operation '{unknown}'", named[unknown].span, nearest(unknown, kinds))
    where = node.get("where")
    condition = context.expr(where) if where else None
    known = frozenset(set[str].intersection(*(set(kinds[kind].numbers) for kind in named or kinds)))
    if wrong := list(problems(condition, Scope(known))) if condition else []:
        raise UserError(*wrong)
    return TemplateNode(frozenset(named), condition)


def _pair(nodes: Mapping[str, TemplateNode], pair: Node) -> tuple[str, str]:
    one, other = pair.children()
    for each in (one, other):
        if each.value not in nodes:
            raise fail("E1011", f"the template has no node '{each.value}'", each.span, nearest(str(each.value), nodes))
    if one.value == other.value:
        raise fail("E1011", f"'{one.value}' is joined with itself", pair.where())
    return str(one.value), str(other.value)


class Embedding(NamedTuple):
    """members: operations by index, in order."""

    template: str
    members: tuple[int, ...]


@dataclass(frozen=True)
class FusionGraph:
    """The graph that templates are matched on. reads: an edge from each operation to each of its readers. shares: by operation, the others that read
    one of its operands."""

    operations: Sequence[Operation]
    reads: "nx.DiGraph[int]"
    shares: Mapping[int, frozenset[int]]

    @cached_property
    def readers(self) -> Mapping[int, frozenset[int]]:
        return {node: frozenset(self.reads.successors(node)) for node in self.reads}

    @cached_property
    def makers(self) -> Mapping[int, frozenset[int]]:
        return {node: frozenset(self.reads.predecessors(node)) for node in self.reads}


def fusion_graph(region: Region) -> FusionGraph:
    """The graph of a region's operations."""
    users: dict[str, set[int]] = {}
    for index, bound in enumerate(region.operations):
        for name, tensor in bound.tensors.items():
            if name != "y":
                users.setdefault(region.viewed(tensor), set()).add(index)
    shares = {index: frozenset[int]().union(*(own for own in users.values() if index in own)) - {index} for index in range(len(region.operations))}
    return FusionGraph([bound.operation for bound in region.operations], operation_graph(region), shares)


def find_embeddings(templates: Sequence[Template], graph: FusionGraph) -> list[Embedding]:
    """The embeddings of all templates, in their order: sets of operations that can run one after the other, each once for each template."""
    found: dict[Embedding, None] = {}
    for template in templates:
        for match in matches(template, graph):
            members = tuple(sorted(match.values()))
            if is_convex(graph.reads, members):
                found.setdefault(Embedding(template.name, members))
    return list(found)


def matches(template: Template, graph: FusionGraph) -> Iterator[dict[str, int]]:
    """By node of the template, the operation: every assignment, mirrored ones too."""
    admitted = {name: [k for k, operation in enumerate(graph.operations) if node.admits(operation)] for name, node in template.nodes.items()}
    start = min(admitted, key=lambda name: len(admitted[name]))
    yield from _extended(template, graph, {name: frozenset(own) for name, own in admitted.items()}, _breadth_first(template, start), {})


def _breadth_first(template: Template, start: str) -> list[str]:
    """The template's nodes from the start on, neighbours before others."""
    pairs = (*template.reads, *template.shares)
    found = [start]
    for name in found:
        found += dict.fromkeys(b for pair in pairs for a, b in (pair, pair[::-1]) if a == name and b not in found)
    return found


def _extended(
    template: Template, graph: FusionGraph, admitted: Mapping[str, frozenset[int]], order: Sequence[str], match: dict[str, int]
) -> Iterator[dict[str, int]]:
    """The assignments that go on with a partial one."""
    if len(match) == len(order):
        yield dict(match)
        return
    name = order[len(match)]
    for operation in sorted(_refined(template, graph, name, admitted[name], match)):
        yield from _extended(template, graph, admitted, order, {**match, name: operation})


def _refined(template: Template, graph: FusionGraph, name: str, candidates: frozenset[int], match: Mapping[str, int]) -> frozenset[int]:
    """The candidates with every edge that the template has to matched nodes."""
    found = candidates - frozenset(match.values())
    for maker, reader in template.reads:
        if reader == name and maker in match:
            found &= graph.readers[match[maker]]
        if maker == name and reader in match:
            found &= graph.makers[match[reader]]
    for pair in template.shares:
        for one, other in (pair, pair[::-1]):
            if other == name and one in match:
                found &= graph.shares[match[one]]
    return found
