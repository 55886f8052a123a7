"""Group templates: the kinds of operations that may share a loop, how they hang together, and conditions on their numbers.

Vertical and horizontal kernel fusion of Xing et al. (2019), section 4.1.3; their intrinsic and point-wise fusions happen in the graph, before
there are regions.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from toolchain.operations.library import Kinds, kinds_of
from toolchain.operations.operation import Operation
from toolchain.schedule.kernels.kernel_file import Stamps, kernel_path, kernel_source, stamps
from toolchain.spec.context import Context, Scope, problems
from toolchain.spec.errors import UserError, fail, nearest
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Expr
from toolchain.spec.files import PACKAGE
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
    return _loaded(MachineKey(machine), paths, stamps(paths[0].parent))


@lru_cache(maxsize=16)
def _loaded(key: MachineKey, paths: tuple[Path, ...], _stamped: Stamps) -> tuple[Template, ...]:
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
