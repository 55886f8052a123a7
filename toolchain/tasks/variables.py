"""The variables of a command line, `target=NAME model=NAME`, checked before anything starts."""

from collections.abc import Mapping
from dataclasses import dataclass

from toolchain.spec.errors import fail, nearest
from toolchain.tasks.names import CHOICES, VARIABLES

KNOWN = tuple(VARIABLES)

PLACES = CHOICES["place"]

MAX_DIGITS = 20
"""The longest number that a user may give; Python refuses to read thousands of them."""


@dataclass(frozen=True)
class Variables:
    """targets: each a machine's name, NAME:CONFIG or a path, the first choice first; or the path of a deployment alone.
    models: names or paths, none for the machine's own choice.

    params: parameters of the machine by name, MACHINE.NAME where there are several. dims: sizes of open dimensions by name.
    fallback: whether the host may run what the machine cannot.
    place: `pays` for regions that save time, `all` for whatever the machine takes, empty for what the model's file says.
    calibration: an .npz file with an array of recorded inputs for each input, empty for what the model's file says.
    schedule: the file of a region's schedule or a folder of such files, empty for what the search finds.
    streams: how many of the machine's share the tiles of every operation that the search schedules.
    images: how many a run takes, each on `streams` of its own; 0 for as few as the machine can.
    html: whether a report is written as a page for a browser as well.
    """

    targets: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    params: tuple[tuple[str, str], ...] = ()
    dims: tuple[tuple[str, int], ...] = ()
    fallback: bool = True
    place: str = ""
    calibration: str = ""
    html: bool = False
    schedule: str = ""
    streams: int = 1
    images: int = 0


def read_variables(given: Mapping[str, str]) -> Variables:
    """Raises UserError E1201 (unknown variable) and E1202 (a value that the variable cannot have)."""
    for name, value in given.items():
        if name not in KNOWN:
            raise fail("E1201", f"unknown variable '{name}'", hint=nearest(name, KNOWN) or f"known: {', '.join(KNOWN)}")
        if not value:
            raise fail("E1202", f"the variable '{name}' is empty", hint=f"leave '{name}=' out")
    return Variables(
        _targets(given.get("target")),
        _models(given.get("model")),
        tuple(_pairs("params", given.get("params", ""))),
        tuple((name, _size(name, value)) for name, value in _pairs("dim", given.get("dim", ""))),
        _yes("fallback", given.get("fallback", "yes")),
        _choice("place", given.get("place", ""), PLACES),
        given.get("calibration", ""),
        _yes("html", given.get("html", "no")),
        given.get("schedule", ""),
        _count("streams", given.get("streams", "1")),
        _count("images", given["images"]) if "images" in given else 0,
    )


def _targets(text: str | None) -> tuple[str, ...]:
    """Raises UserError E1207 for a machine that is named twice."""
    found = tuple(filter(None, (text or "").split(",")))
    twice = next((name for name in found if found.count(name) > 1), None)
    if twice is not None:
        raise fail("E1207", f"'target' names '{twice}' twice", hint="name each machine once, the first choice first")
    if text is not None and not found:
        raise fail("E1202", f"the variable 'target' names none: '{text}'", hint="for example target=NAME")
    return found


def _models(text: str | None) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(filter(None, (text or "").split(","))))
    if text is not None and not found:
        raise fail("E1202", f"the variable 'model' names none: '{text}'", hint="leave 'model=' out for the machine's own choice")
    return found


def _pairs(variable: str, text: str) -> list[tuple[str, str]]:
    """`NAME:VALUE,NAME:VALUE`, by name; an equals sign does as well."""
    found: dict[str, str] = {}
    for entry in filter(None, text.split(",")):
        name, colon, value = entry.replace("=", ":", 1).rpartition(":")
        if not (name and colon and value):
            raise fail("E1202", f"'{entry}' in '{variable}' does not have the form NAME:VALUE")
        if found.setdefault(name, value) != value:
            raise fail("E1202", f"'{name}' in '{variable}' is {found[name]} and {value}")
    return sorted(found.items())


def _size(name: str, value: str) -> int:
    if not value.isascii() or not value.isdigit() or len(value) > MAX_DIGITS or int(value) >= 1 << 31:
        shown = value[:MAX_DIGITS] + "..." * (len(value) > MAX_DIGITS)
        hint = "a size is a whole number, and 0 only of one axis, INPUT.AXIS"
        raise fail("E1202", f"the dimension '{name[:80]}' cannot be '{shown}'", hint=hint)
    return int(value)


def _count(name: str, value: str) -> int:
    if not value.isascii() or not value.isdigit() or len(value) > MAX_DIGITS or not int(value):
        raise fail("E1202", f"'{name}' is a whole number from 1 on, not '{value[:MAX_DIGITS]}'")
    return int(value)


def _yes(name: str, value: str) -> bool:
    if value not in ("yes", "no"):
        raise fail("E1202", f"'{name}' is yes or no, not '{value}'")
    return value == "yes"


def _choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    if value and value not in choices:
        raise fail("E1202", f"'{name}' is {' or '.join(choices)}, not '{value}'", hint=nearest(value, choices))
    return value
