"""Studies from a file and from a command line, with everything that is wrong with their axes told before a point is built."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from toolchain.explore.study import BUILD_AXES, OBJECTIVES, SEARCHES, VERIFY, Axis, Study
from toolchain.spec.errors import Diagnostic, Source, UserError, fail, nearest
from toolchain.spec.files import PACKAGE, read_limited
from toolchain.spec.model import Machine
from toolchain.spec.schema import validate
from toolchain.spec.search_policies import POLICIES, foreign_policies
from toolchain.spec.yaml_nodes import MAX_BYTES, Node, parse_yaml
from toolchain.tasks.variables import NONE, PLACES, SEPARATOR

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
