"""Deployments: the machines of one system, the links between them and the host, and rules that place nodes."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from toolchain.spec.errors import Source, Span, fail, nearest
from toolchain.spec.files import PACKAGE, is_file
from toolchain.spec.load import read_text
from toolchain.spec.model import Host, Machine, Quantity
from toolchain.spec.schema import validate
from toolchain.spec.sections.conventions import quantity
from toolchain.spec.yaml_nodes import Node, parse_yaml

SCHEMA = PACKAGE / "schemas" / "deploy.schema.json"
HOST = "host"
_HEADING = re.compile(r"^deploy\s*:", re.MULTILINE)


@dataclass(frozen=True)
class Processor:
    """The host's own speed, as in Host. step_us: None for what the machine's file says."""

    gmac_per_s: Mapping[str, Quantity]
    gb_per_s: Quantity
    step_us: Quantity | None


@dataclass(frozen=True)
class Link:
    """Between the host and one machine, as in Host."""

    launch_us: Quantity
    transfer_us: Quantity
    transfer_gb_per_s: Quantity


@dataclass(frozen=True)
class Member:
    """One machine. given: its name, NAME:CONFIG or a path. params: in place of the machine's own. link: None for what the machine's file says."""

    given: str
    params: tuple[tuple[str, str], ...]
    link: Link | None
    span: Span


@dataclass(frozen=True)
class Rule:
    """Nodes by patterns of their names and operators. on: a machine's name, or `host`."""

    nodes: tuple[str, ...]
    on: str
    because: str
    span: Span


@dataclass(frozen=True)
class Deployment:
    """text: of the file at `path`, as it was read once. host: None for what the machines' files say. members: the first choice first."""

    name: str
    path: Path
    text: str
    host: Processor | None
    members: tuple[Member, ...]
    rules: tuple[Rule, ...]

    @property
    def digest(self) -> str:
        """SHA-256 in hex of the file."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def find_deployment(given: str) -> Deployment | None:
    """The deployment in the file of a path; None for names, and for files of machines. Raises as `read_text` and `deployment_of`."""
    if not given.endswith((".yaml", ".yml")) or not is_file(Path(given)):
        return None
    text = read_text(Path(given))
    return deployment_of(text, given) if _HEADING.search(text) else None


@lru_cache(maxsize=8)
def deployment_of(text: str, path: str) -> Deployment:
    """Raises UserError E01xx for a file that is wrong, with every place."""
    root = parse_yaml(Source(path, text))
    validate(root, SCHEMA)
    host = root.get("host")
    processor = _processor(host) if host else None
    members = tuple(_member(node, Path(path).parent) for node in root.entries("machines"))
    return Deployment(root.value["deploy"].text("name"), Path(path), text, processor, members, tuple(map(_rule, root.entries("rules"))))


def _processor(node: Node) -> Processor:
    step = node.get("step_us")
    rates = {name: quantity(rate) for name, rate in node.members("gmac_per_s")}
    return Processor(rates, quantity(node.value["gb_per_s"]), None if step is None else quantity(step))


def _member(node: Node, folder: Path) -> Member:
    target = node.value["target"]
    given = str(target.value)
    path, colon, config = given.partition(":")
    if path.endswith((".yaml", ".yml")) and not Path(path).is_absolute():
        given = f"{folder / path}{colon}{config}"
    link = node.get("link")
    costs = Link(*(quantity(link.value[key]) for key in ("launch_us", "transfer_us", "transfer_gb_per_s"))) if link else None
    return Member(given, tuple((name, str(value.value)) for name, value in node.members("params")), costs, target.span)


def _rule(node: Node) -> Rule:
    return Rule(tuple(str(pattern.value) for pattern in node.entries("nodes")), node.text("on"), node.text("because"), node.value["on"].span)


def check_rules(deployment: Deployment, names: tuple[str, ...]) -> None:
    """names: of the machines. Raises UserError E1209 for a rule about another one."""
    for rule in deployment.rules:
        if rule.on not in (HOST, *names):
            known = [HOST, *names]
            raise fail(
                "E1209", f"there is no machine '{rule.on}' in this deployment", rule.span, nearest(rule.on, known) or f"known: {', '.join(known)}"
            )


def deployed(machine: Machine, deployment: Deployment, number: int) -> Machine:
    """Member `number` with this system's host and link.

    Raises UserError E1210 where neither the deployment nor the machine's file has one of them.
    """
    own, processor, member = machine.host, deployment.host, deployment.members[number]
    if processor is None and member.link is None:
        return machine
    speed, link = processor or own, member.link or own
    if speed is None or link is None:
        lacking = "'host'" if speed is None else f"the 'link' of machine '{machine.name}'"
        hint = "a machine without the section 'host' needs both from the deployment"
        raise fail("E1210", f"{lacking} is in neither the deployment nor the machine's file", member.span, hint)
    step = speed.step_us or (own.step_us if own else None)
    return replace(machine, host=Host(speed.gmac_per_s, speed.gb_per_s, link.launch_us, link.transfer_us, link.transfer_gb_per_s, step))
