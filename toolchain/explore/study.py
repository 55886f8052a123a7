"""A study: the machine, the axes along which it varies, what is measured and how points are chosen; read from a file and a command line, with
everything that is wrong with its axes told before a point is built."""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from types import MappingProxyType

from toolchain.spec.errors import Diagnostic, Source, Span, UserError, fail, nearest
from toolchain.spec.files import PACKAGE, read_limited
from toolchain.spec.model import Machine
from toolchain.spec.schema import validate
from toolchain.spec.search_policies import POLICIES, foreign_policies
from toolchain.spec.yaml_nodes import MAX_BYTES, Node, parse_yaml
from toolchain.tasks.variables import NONE, PLACES, SEPARATOR

SEARCHES: Mapping[str, str] = MappingProxyType(
    {
        "grid": "every point, or as many evenly spaced ones as the budget has",
        "random": "different points, drawn with the seed",
        "bayes": "Optuna's tree-structured Parzen estimator, in batches",
        "evolution": "Optuna's NSGA-II, a batch a generation",
    }
)
QUEUED = ("grid", "random")
"""Searches whose points are all known at the start."""
BUILD_AXES: Mapping[str, str] = MappingProxyType(
    {
        "machine": "whole machines: names, NAME:CONFIG or paths",
        "config": "configurations of the machine",
        "place": "pays, all or least: which regions are made",
        "streams": "how many of the machine's programs share the work of an operation",
        "images": "how many images a run takes",
        "batch": "how many images come at once, for which regions are cut into sub-graphs",
        "search": "the policy that proposes schedules",
        "effort": "how many schedules of a region are timed exactly",
        "without": "kernels that are left out, with + between them; none",
    }
)
"""Axes that are no parameters of the machine: variables of a build."""
VERIFY = ("all", "sample", "no")
"""All tensors by the whole ladder; the model's outputs on one sample, after the checks of its programs; not at all."""


@dataclass(frozen=True)
class Objective:
    """unit: behind its figures. more: whether a larger figure is better. doc: its meaning."""

    unit: str
    doc: str
    more: bool = False


OBJECTIVES: Mapping[str, Objective] = MappingProxyType(
    {
        "ms": Objective("ms", "time of the machine for an image of each model"),
        "total_ms": Objective("ms", "the same with the host's part, transfers and launches"),
        "cycles": Objective("", "cycles of the machine for an image of each model"),
        "bytes": Objective("B", "moved from and to DRAM for an image of each model"),
        "area": Objective("mm2", "of the chip, by the section costs of the machine's file"),
        "energy": Objective("uJ", "for an image of each model, by the section costs"),
        "power": Objective("mW", "energy over time of the machine"),
        "accuracy": Objective("%", "of the integers, of the model that is worst", more=True),
    }
)


@dataclass(frozen=True)
class Axis:
    """values: as a command line gives them, in the order of the study. span: its place in a file."""

    name: str
    values: tuple[str, ...]
    span: Span | None = field(default=None, compare=False)


Point = tuple[str, ...]
"""A value for each axis."""


@dataclass(frozen=True)
class Study:
    """machine: NAME, NAME:CONFIG or a path; the one that others are held against where machines are an axis. budget: the most points that are
    measured. verify: one of VERIFY, for each point.
    start: the machine as its file has it, which is measured first; None where it is no point of the study."""

    machine: str
    models: tuple[str, ...]
    axes: tuple[Axis, ...]
    objectives: tuple[str, ...] = ("ms",)
    search: str = "grid"
    budget: int = 200
    seed: int = 0
    verify: str = "all"
    start: Point | None = None
    span: Span | None = field(default=None, compare=False)

    @property
    def machines(self) -> tuple[str, ...]:
        """Every machine that is built."""
        return next((axis.values for axis in self.axes if axis.name == "machine"), (self.machine,))

    @property
    def size(self) -> int:
        """All points that there are."""
        return prod(len(axis.values) for axis in self.axes)

    @property
    def digest(self) -> str:
        """A hash of all that results depend on; another budget goes on with the same study."""
        axes = [[axis.name, *axis.values] for axis in self.axes]
        text = json.dumps([self.machine, self.models, axes, self.objectives, self.search, self.seed, self.verify])
        return hashlib.sha256(text.encode()).hexdigest()

    def point(self, number: int) -> Point:
        """The point of that number; the last axis varies fastest."""
        found: list[str] = []
        for axis in reversed(self.axes):
            number, place = divmod(number, len(axis.values))
            found.append(axis.values[place])
        return tuple(reversed(found))

    def number(self, point: Point) -> int:
        """The way back."""
        found = 0
        for axis, value in zip(self.axes, point, strict=True):
            found = found * len(axis.values) + axis.values.index(value)
        return found

    def queue(self) -> Iterator[Point]:
        """The points of a search that knows them at the start, `start` before all others."""
        count = min(self.budget, self.size)
        if self.search == "random":
            import random

            numbers = random.Random(self.seed).sample(range(self.size), count)
        else:
            numbers = [number * self.size // count for number in range(count)]
        points = [each for each in map(self.point, numbers) if each != self.start]
        yield from ([self.start, *points] if self.start else points)[:count]


def point_text(study: Study, point: Point) -> str:
    """`LOG_BLOCK=4 LOG_BUS=3`."""
    return " ".join(f"{axis.name}={value}" for axis, value in zip(study.axes, point, strict=True))


SCHEMA = PACKAGE / "schemas" / "explore.schema.json"
MOST = 1000
"""Values of an axis."""
_RANGE = re.compile(r"(-?[0-9]{1,9})\.\.(-?[0-9]{1,9})\Z")


def read_study(path: Path) -> Study:
    """Raises UserError E0001, E0330 (unreadable), E01xx (wrong YAML or keys) and E1501 (values)."""
    try:
        text = read_limited(path, MAX_BYTES, "the study").decode()
    except UnicodeDecodeError as error:
        raise fail("E0001", f"the study is not UTF-8 text at byte {error.start:#x}", place=str(path)) from None
    root = parse_yaml(Source(str(path), text))
    validate(root, SCHEMA)
    head, folder = root.value["explore"], path.parent
    study = Study(_beside(head.text("machine"), folder), _texts(head, "models", folder), tuple(_axes(root, folder)), span=head.value["machine"].span)
    given = {name: int(node.value) for name in ("budget", "seed") if (node := head.get(name))}
    return replace(
        study,
        objectives=_texts(head, "objectives") or study.objectives,
        search=head.text("search", study.search),
        verify=_verify(head.get("verify")),
        **given,
    )


def _verify(node: Node | None) -> str:
    """One of VERIFY; true is all of it."""
    return "all" if node is None or node.value is True else str(node.value or VERIFY[-1])


def _beside(given: str, folder: Path) -> str:
    """A path from the file's folder; names as they are."""
    is_path = "/" in given or given.partition(":")[0].endswith((".yaml", ".yml", ".onnx"))
    return str(folder / given) if is_path and not Path(given).is_absolute() else given


def _texts(node: Node, key: str, folder: Path | None = None) -> tuple[str, ...]:
    found = (str(each.value) for each in node.entries(key))
    return tuple(found) if folder is None else tuple(_beside(text, folder) for text in found)


def _axes(root: Node, folder: Path) -> Iterator[Axis]:
    for name, node in root.members("vary"):
        values = tuple(str(each.value) for each in node.children()) if isinstance(node.value, list) else _range(name, str(node.value))
        yield Axis(name, tuple(_beside(value, folder) for value in values) if name == "machine" else values, node.key_span or node.span)


def axis_of(text: str) -> Axis:
    """`NAME=3..5` or `NAME=64,256` of a command line. Raises UserError E1501."""
    name, equals, given = text.partition("=")
    if not equals or not name or not given:
        raise fail("E1501", f"'{text[:80]}' is no axis", hint="for example --vary SIZE=3..5 or --vary SIZE=64,256")
    if ".." in given:
        return Axis(name, _range(name, given))
    values = tuple(given.split(","))
    if not all(values) or len(set(values)) < len(values):
        raise fail("E1501", f"a value of '{name[:80]}' is empty, or there twice")
    return Axis(name, values)


def _range(name: str, text: str) -> tuple[str, ...]:
    match = _RANGE.match(text)
    low, high = (int(match[1]), int(match[2])) if match else (0, -1)
    if not 0 <= high - low < MOST:
        raise fail("E1501", f"'{text[:40]}' is no range of '{name[:80]}'", hint=f"LEAST..MOST, at most {MOST} values")
    return tuple(map(str, range(low, high + 1)))


def check_study(study: Study, machines: Sequence[Machine]) -> None:
    """machines: those of the study, in its order. Raises UserError E1501 with every axis, value and choice that cannot be with one of them."""
    found = [*_choices(study), *(fault for machine in machines for fault in _unpriced(study, machine))]
    found += [fault for axis in study.axes for machine in machines for fault in _faults(axis, machine)]
    names = [axis.name for axis in study.axes]
    found += [Diagnostic("E1501", f"'{name}' is varied twice") for name in dict.fromkeys(names) if names.count(name) > 1]
    if "config" in names and (fixed := [given for given in study.machines if ":" in given]) and "machine" in names:
        span, hint = study.axes[names.index("machine")].span, "name the machine alone, or leave 'config' out"
        found.append(Diagnostic("E1501", f"'{fixed[0][:80]}' says its configuration, and 'config' is varied", span, hint))
    if found:
        raise UserError(*dict.fromkeys(found))


def _choices(study: Study) -> Iterator[Diagnostic]:
    if not study.axes:
        yield Diagnostic("E1501", "nothing varies", study.span, "for example --vary SIZE=3..5")
    yield from _unknown("objective", study.objectives, OBJECTIVES)
    yield from _unknown("search", [study.search], SEARCHES)


def _unpriced(study: Study, machine: Machine) -> Iterator[Diagnostic]:
    for name in study.objectives:
        stated = machine.costs and (machine.costs.area_um2 if name == "area" else machine.costs.energy_pj)
        if name in ("area", "energy", "power") and not stated:
            hint = "add the section 'costs' to its file (docs/machine-description.md)"
            yield Diagnostic("E1501", f"machine '{machine.name}' does not say what '{name}' it costs", study.span, hint)


def _unknown(kind: str, words: Iterable[str], known: Mapping[str, object]) -> Iterator[Diagnostic]:
    for word in words:
        if word not in known:
            yield Diagnostic("E1501", f"there is no {kind} '{word[:80]}'", None, nearest(word, known) or f"known: {', '.join(known)}")


def _faults(axis: Axis, machine: Machine) -> Iterator[Diagnostic]:
    parameter = machine.parameters.get(axis.name)
    if parameter is None and axis.name not in BUILD_AXES:
        hint = nearest(axis.name, [*machine.settable, *BUILD_AXES])
        yield Diagnostic("E1501", f"'{axis.name[:80]}' is no parameter of machine '{machine.name}'", axis.span, hint)
        return
    for value in axis.values:
        if parameter is not None:
            low, high = parameter.range or (0, -1)
            wrong = value not in parameter.choices if parameter.choices else not (_is_int(value) and low <= int(value) <= high)
            allowed = parameter.values
        else:
            allowed, wrong = _build_value(axis.name, value, machine)
        if wrong:
            yield Diagnostic("E1501", f"{axis.name} = {value[:40]} cannot be", axis.span, f"it is {allowed}")


def _build_value(name: str, value: str, machine: Machine) -> tuple[str, bool]:
    """The values that a variable of a build may have, as text, and whether this one is none of them."""
    if name == "machine":
        return "", False  # it was loaded
    if name == "without":
        known = _kernels(machine)
        return f"none, or of machine '{machine.name}' {', '.join(known) or 'no kernel'}", value != NONE and not {*value.split(SEPARATOR)} <= {*known}
    words: Mapping[str, Collection[str]] = {"config": machine.configs, "place": PLACES, "search": (*POLICIES, *foreign_policies())}
    if name in words:
        return ", ".join(words[name]), value not in words[name]
    least = 0 if name == "effort" else 1
    return f"whole numbers from {least} on", not (_is_int(value) and int(value) >= least)


def _kernels(machine: Machine) -> tuple[str, ...]:
    from toolchain.schedule.kernels.kernel_file import load_kernels

    return () if machine.takes_graphs else tuple(load_kernels(machine))


def _is_int(text: str) -> bool:
    return re.fullmatch(r"-?[0-9]{1,18}", text) is not None
