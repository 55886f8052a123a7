"""Tasks and variables of a command line, `target=NAME model=NAME`: their names and values, checked before anything starts."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from types import MappingProxyType

from toolchain.spec.errors import fail, nearest
from toolchain.spec.search_policies import EFFORT, SEARCH, check_policy

TASKS: Mapping[str, str] = MappingProxyType(
    {
        "build": "compile models for a machine, and say what they cost there",
        "infer": "run a model's images: accuracy in floating point, as integers, on the emulator; cycles",
        "verify": "compare every tensor with the integer model, and the emulator's engines with each other",
        "report": "cost, accuracy and exactness of a model, operation by operation",
        "explain": "say where a model's time goes, why nodes are on the host, and what to change",
    }
)

VARIABLES: Mapping[str, str] = MappingProxyType(
    {
        "target": "the machine: NAME, NAME:CONFIG or the path of its file; several with commas, the first choice first; or a deployment's file",
        "model": "names, or paths of .onnx and .yaml files, with commas between them; left out: what the machine's file lists",
        "params": "parameters of the machine, NAME:VALUE with commas between them, in place of its file's; of several machines MACHINE.NAME:VALUE",
        "dim": "sizes of dimensions that an ONNX file leaves open, NAME:SIZE with commas between them; one without a name is INPUT.AXIS",
        "lengths": "sizes that an open dimension takes, all in one bundle, NAME:SIZE,SIZE,... with commas; left out: what the model's file says",
        "beyond": "of lengths, samples that none takes: error, or host, in floating point; left out: the model file's",
        "fallback": "yes, or no: an operator that would stay on the host is an error",
        "place": "pays: regions that save time; all: whatever the machine takes; least: the division of least time; left out: the model file's",
        "calibration": "an .npz file with an array of recorded inputs for each input, or a folder of pictures; left out: what the model's file says",
        "schedule": "the file of a region's schedule, or a folder of such files, to be obeyed; left out: what the search finds",
        "streams": "how many of the machine's programs share the work of every operation; left out: 1",
        "images": "how many images a run takes, each on `streams` of its own; left out: as few as the machine can",
        "batch": "how many samples come at once; regions are cut into sub-graphs with images and streams of their own; left out: regions as they are",
        "objective": "latency: one sample as soon as can be, as batch=1; throughput: of `batch`, left out as many as the machine runs side by side",
        "search": "the policy that proposes schedules: greedy, climb, cover, optimal, subgraphs, retile, or that of a package; left out: climb",
        "effort": "how many schedules of a region are timed exactly; 0: the first is taken by estimates; left out: 2",
        "without": "kernels of the machine that are left out, with + between them; left out: none",
        "html": "yes: `report` writes a page for a browser as well; no",
    }
)
CHOICES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "beyond": ("error", "host"),
        "fallback": ("yes", "no"),
        "place": ("pays", "all", "least"),
        "objective": ("latency", "throughput"),
        "html": ("yes", "no"),
    }
)
"""The values of variables that have few."""


def variables_text() -> str:
    """A line for each variable."""
    width = max(map(len, VARIABLES)) + 2
    return "\n".join(f"  {name + '=':<{width}}{text}" for name, text in VARIABLES.items())


KNOWN = tuple(VARIABLES)

PLACES = CHOICES["place"]

NONE, SEPARATOR = "none", "+"
"""How kernels that are left out are written: a word where all stay, and a sign between two names."""

MAX_DIGITS = 20
"""The longest number that a user may give; Python refuses to read thousands of them."""


Lengths = tuple[tuple[str, tuple[int, ...]], ...]
"""Dimensions that take several sizes, by name; each with its sizes in increasing order."""


@dataclass(frozen=True)
class Variables:
    """targets: each a machine's name, NAME:CONFIG or a path, the first choice first; or the path of a deployment alone.
    models: names or paths, none for the machine's own choice.

    params: parameters of the machine by name, MACHINE.NAME where there are several. dims: sizes of open dimensions by name.
    lengths: dimensions that take several sizes, each with these in increasing order. beyond: where samples that none takes run, empty for the choice
    of the model's file.
    fallback: whether the host may run nodes that the machine cannot.
    place: `pays` for regions that save time, `all` for whatever the machine takes, empty for the choice of the model's file.
    calibration: an .npz file with an array of recorded inputs for each input, or a folder of pictures, empty for those of the model's file.
    schedule: the file of a region's schedule or a folder of such files, empty for the search's own.
    streams: how many of the machine's share the tiles of every operation that the search schedules.
    images: how many a run takes, each on `streams` of its own; 0 for as few as the machine can.
    batch: how many samples come at once, for which regions are cut into sub-graphs; 0 for regions as they are.
    objective: `latency` or `throughput`, from which a plan makes the batch; empty where nothing is said.
    search: the policy that proposes schedules. effort: how many of a region are timed exactly, at most.
    html: whether a report is written as a page for a browser as well. without: kernels of the machine that are left out, in the order of names.
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
    batch: int = 0
    objective: str = ""
    search: str = SEARCH
    effort: int = EFFORT
    without: tuple[str, ...] = ()
    lengths: Lengths = ()
    beyond: str = ""


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
        read_sizes(given.get("dim", "")),
        _yes("fallback", given.get("fallback", "yes")),
        check_choice("place", given.get("place", "")),
        given.get("calibration", ""),
        _yes("html", given.get("html", "no")),
        given.get("schedule", ""),
        _count("streams", given.get("streams", "1")),
        _count("images", given["images"]) if "images" in given else 0,
        _count("batch", given["batch"]) if "batch" in given else 0,
        check_choice("objective", given.get("objective", "")),
        check_policy(given.get("search", SEARCH)),
        _count("effort", given["effort"], 0) if "effort" in given else EFFORT,
        kernel_names(given.get("without", NONE)),
        read_lengths(given.get("lengths", "")),
        check_choice("beyond", given.get("beyond", "")),
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


def read_lengths(text: str) -> Lengths:
    """`NAME:SIZE,SIZE,NAME:SIZE,...`, by name. Raises UserError E1202 where it has another form, and as `check_lengths`."""
    found: dict[str, list[int]] = {}
    name = ""
    for entry in filter(None, text.split(",")):
        begun, colon, size = entry.replace("=", ":", 1).rpartition(":")
        name = begun if colon else name
        if not name:
            raise fail("E1202", f"'{entry[:80]}' in 'lengths' does not have the form NAME:SIZE,SIZE", hint="for example lengths=sequence:16,64,256")
        if colon and name in found:
            raise fail("E1202", f"'{name[:80]}' in 'lengths' stands twice")
        found.setdefault(name, []).append(_size(name, size))
    return check_lengths({name: tuple(sizes) for name, sizes in found.items()})


MOST_LENGTHS = 64
"""Combinations of sizes: each is a build of its own."""


def check_lengths(lengths: Mapping[str, tuple[int, ...]]) -> Lengths:
    """By name. Raises UserError E1202 for sizes that do not increase from 1 on, a single one, and too many combinations."""
    for name, sizes in lengths.items():
        if len(sizes) < 2:
            raise fail("E1202", f"'{name[:80]}' in 'lengths' has one size alone", hint=f"a single size is dim={name}:{sizes[0] if sizes else 'SIZE'}")
        if sizes[0] < 1 or any(after <= before for before, after in pairwise(sizes)):
            text = f"the sizes of '{name[:80]}' in 'lengths' do not increase from 1 on: {','.join(map(str, sizes))}"
            raise fail("E1202", text, hint=f"write {name}:{','.join(map(str, sorted({*sizes} - {0})))}")
    count = prod(len(sizes) for sizes in lengths.values())
    if count > MOST_LENGTHS:
        raise fail("E1202", f"'lengths' has {count} combinations of sizes; at most {MOST_LENGTHS}", hint="each is a program of its own")
    return tuple(sorted(lengths.items()))


def read_sizes(text: str) -> tuple[tuple[str, int], ...]:
    """`NAME:SIZE,NAME:SIZE`, by name. Raises UserError E1202."""
    return tuple((name, _size(name, value)) for name, value in _pairs("dim", text))


def _size(name: str, value: str) -> int:
    if not value.isascii() or not value.isdigit() or len(value) > MAX_DIGITS or int(value) >= 1 << 31:
        shown = value[:MAX_DIGITS] + "..." * (len(value) > MAX_DIGITS)
        hint = "a size is a whole number, and 0 only of one axis, INPUT.AXIS"
        raise fail("E1202", f"the dimension '{name[:80]}' cannot be '{shown}'", hint=hint)
    return int(value)


def _count(name: str, value: str, least: int = 1) -> int:
    if not value.isascii() or not value.isdigit() or len(value) > MAX_DIGITS or int(value) < least:
        raise fail("E1202", f"'{name}' is a whole number from {least} on, not '{value[:MAX_DIGITS]}'")
    return int(value)


def kernel_names(text: str) -> tuple[str, ...]:
    """`NAME+NAME` or `none`, each once and in their order, so that one choice has one folder. Raises UserError E1202 for an empty name."""
    names = () if text == NONE else tuple(sorted({*text.split(SEPARATOR)}))
    if "" in names:
        raise fail("E1202", f"a kernel in 'without' has no name: '{text[:80]}'", hint="NAME+NAME, or none")
    return names


def _yes(name: str, value: str) -> bool:
    if value not in ("yes", "no"):
        raise fail("E1202", f"'{name}' is yes or no, not '{value}'")
    return value == "yes"


def check_choice(name: str, value: str) -> str:
    """A value of one of the variables in CHOICES, or an empty one. Raises UserError E1202 for any other."""
    if value and value not in (choices := CHOICES[name]):
        raise fail("E1202", f"'{name}' is {' or '.join(choices)}, not {value!r}", hint=nearest(value, choices))
    return value
