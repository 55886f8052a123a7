"""The machines of a build: hashes of their sections, kept while the file stays as it is, the names of build folders, and deployments.

A folder is `MACHINE/MODEL` in the plain case. Behind `@` stands a choice of the command line: where a file is from, and options of the build.
A deployment names the machines of one system, the links between them and the host, and rules that place nodes.
"""

import hashlib
import json
import os
import re
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path

from toolchain.spec.errors import Source, Span, fail, nearest
from toolchain.spec.files import PACKAGE, is_file, package_hash, write_atomic
from toolchain.spec.load import companion, find_target, list_targets, read_text
from toolchain.spec.model import Host, Machine, Quantity
from toolchain.spec.schema import validate
from toolchain.spec.sections.conventions import quantity
from toolchain.spec.typed_json import from_json, to_json
from toolchain.spec.yaml_nodes import Node, parse_yaml
from toolchain.tasks.receipts import digest_of
from toolchain.tasks.variables import SEPARATOR

LONGEST = 80
"""Characters of a path in a name; the end of a longer one, and a hash of all of it."""


def folder_name(text: str) -> str:
    """A text of the user's as the name of one visible folder."""
    return re.sub(r"[^\w.+@~-]", "_", text).lstrip(".") or "_"


def from_here(path: Path) -> str:
    """The path from the current folder where it lies there, else all of it."""
    return os.path.relpath(path) if path.absolute().is_relative_to(Path.cwd()) else str(path.absolute())


def path_name(path: Path) -> str:
    """A path in a name: from the current folder, `~` for each `/`; empty for the current folder itself."""
    shown = from_here(path)
    text = "" if shown == "." else re.sub(r"[^\w.+~-]", "_", shown.replace(os.sep, "~"))
    return text if len(text) <= LONGEST else f"{hashlib.sha256(text.encode()).hexdigest()[:8]}{text[-LONGEST:]}"


def from_elsewhere(name: str, path: Path) -> str:
    """`@FOLDER` for a file that does not lie in the current folder, `@FILE` for one whose name is not its machine's or model's."""
    where = path_name(path.parent if path.stem == name else path)
    return f"@{where}" if where else ""


def chosen(name: str, value: str) -> str:
    """`@NAME-VALUE` for an option that was given; files without their suffix."""
    return f"@{name}-{value}" if value else ""


@dataclass(frozen=True)
class _Known:
    """The elaborated machine's part of a Target, as it is kept in a file."""

    name: str
    config: str
    sections: Mapping[str, str]
    placing: str
    notes: str
    models: tuple[str, ...]
    streams: int
    lockstep: int
    values: Mapping[str, str]
    named: tuple[str, ...]


@dataclass(frozen=True)
class Target:
    """given: as the user named it. text: of its file, which the whole build takes as it was read once. models: its own choice.

    sections: hash of each section of the elaborated machine that can change a result, the order of its entries included.
    placing: hash of the part of the section `timing` that placing operations reads. notes: hash of the whole text, for people too.
    streams: that it runs. lockstep: images that each of them takes at once. without: its kernels that are left out. values: of all parameters.
    named: parameters that elaborated sections name.
    """

    given: str
    name: str
    config: str
    params: tuple[tuple[str, str], ...]
    path: Path
    sections: Mapping[str, str]
    placing: str
    notes: str
    models: tuple[str, ...]
    streams: int
    lockstep: int
    text: str = field(repr=False)
    without: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    named: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """A name for folders: different machines have different ones."""
        changed = "".join(f"+{name}-{value}" for name, value in self.params)
        return f"{self.name}{self._copy}{f'.{self.config}' if self.config else ''}{changed}{chosen('without', SEPARATOR.join(self.without))}"

    @cached_property
    def _copy(self) -> str:
        """The place of a file that is not the one which commands find by the machine's name."""
        known, where = list_targets().get(self.name), from_elsewhere(self.name, self.path)
        if known is None:
            return where
        return "" if known.resolve() == self.path.resolve() else where or f"@{self.path.name}"

    @property
    def command(self) -> str:
        """As commands take it: `NAME:CONFIG --set PARAM=VALUE`."""
        return " ".join((shlex.quote(self.given), *(f"--set {name}={value}" for name, value in self.params)))

    def chosen_params(self, words: Collection[str]) -> str:
        """A hash of the parameters that the elaborated machine or these words name: the others have no other way into a result than its sections.
        words: of the machine's folder."""
        return digest_of({name: value if name in self.named or name in words else "" for name, value in self.values.items()})

    @property
    def folder(self) -> Path:
        """The folder of the machine's kernels and templates."""
        kernels = companion(self.path, self.name, "kernels.yaml")
        return kernels.parent if kernels else self.path.parent / self.name


def load_target(given: str, params: tuple[tuple[str, str], ...], cache: Path) -> Target:
    """Raises UserError for a machine that does not load, with everything that is wrong with it."""
    base, _, config = given.partition(":")
    path = find_target(base)
    text = read_text(path)
    key = hashlib.sha256(repr((text, config, params, _code())).encode()).hexdigest()
    kept = cache / f"{key[:32]}.json"
    found = _read(kept)
    if found is None:
        found = _elaborated(text, path, config, params)
        _keep(kept, found)
    sections, runs = (found.sections, found.placing, found.notes), (found.streams, found.lockstep)
    return Target(given, found.name, found.config, params, path, *sections, found.models, *runs, text, values=found.values, named=found.named)


def _code() -> tuple[str, ...]:
    return tuple(package_hash(PACKAGE / name) for name in ("spec", "isa", "schemas"))


def _elaborated(text: str, path: Path, config: str, params: tuple[tuple[str, str], ...]) -> _Known:
    from toolchain.isa.check_machine import check_machine
    from toolchain.spec.fingerprint import named_params, notes_hash, placing_hash, section_hashes
    from toolchain.spec.load import load_text

    machine = load_text(text, str(path), config, dict(params))
    check_machine(machine)
    sections = section_hashes(machine, ordered=True)
    del sections["target"]  # its name is the folder's, the rest are notes
    sections.pop("costs", None)  # no result depends on them, and stages that tell them read the notes
    hashes = sections, placing_hash(machine), notes_hash(machine)
    runs, values = (machine.streams, machine.lockstep), {name: str(value) for name, value in machine.params.items()}
    return _Known(machine.name, machine.config, *hashes, machine.models, *runs, values, named_params(machine))


def _read(path: Path) -> _Known | None:
    """None where the file is not there, or is damaged in any way."""
    try:
        return from_json(_Known, json.loads(path.read_text()))
    except (OSError, ValueError, RecursionError):
        return None


def _keep(path: Path, found: _Known) -> None:
    """Make the folder if possible. A later write reports a failure; an up-to-date build needs no folder."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    write_atomic(path, json.dumps(to_json(found)).encode())


SCHEMA = PACKAGE / "schemas" / "deploy.schema.json"
HOST = "host"
_HEADING = re.compile(r"^deploy\s*:", re.MULTILINE)


@dataclass(frozen=True)
class Processor:
    """The host's own speed, as in Host. step_us: None for the number of the machine's file."""

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
    """One machine. given: its name, NAME:CONFIG or a path. params: in place of the machine's own. link: None for that of the machine's file."""

    given: str
    params: tuple[tuple[str, str], ...]
    link: Link | None
    span: Span


@dataclass(frozen=True)
class PlacementRule:
    """Nodes by patterns of their names and operators. on: a machine's name, or `host`."""

    nodes: tuple[str, ...]
    on: str
    because: str
    span: Span


@dataclass(frozen=True)
class Deployment:
    """text: of the file at `path`, as it was read once. host: None for the numbers of the machines' files. members: the first choice first."""

    name: str
    path: Path
    text: str
    host: Processor | None
    members: tuple[Member, ...]
    rules: tuple[PlacementRule, ...]

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


def _rule(node: Node) -> PlacementRule:
    return PlacementRule(tuple(str(pattern.value) for pattern in node.entries("nodes")), node.text("on"), node.text("because"), node.value["on"].span)


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
