"""A bundle as code that others link: a library in C behind a header with open, run and close, or one ELF file with the machine code of its regions
and their parameters in sections of their own.

Readers and loaders of ELF know a section by its name: `.tilewright.code.REGION` has a region's instructions as its device takes them, or its function
where a region is C; `.tilewright.parameters.REGION` its weights, biases and tables; `.tilewright.manifest` the bundle's plan; `.text` the program of
the host that drives it all.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from toolchain.codegen import render
from toolchain.runtime.bundle import digest, manifest_text
from toolchain.runtime.contents import Bundle, Interface
from toolchain.runtime.stand_alone import BUNDLE_SOURCE, HEADER, ROUNDED, RUNTIME, ProgramWriter, in_comment, region_sources, stand_alone, written
from toolchain.spec.compile import link_program
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine

MAGIC = b"\x7fELF"
FLAGS = ("-std=c99", "-O3", "-ffp-contract=off", "-Wl,--build-id=none")
MANIFEST = "manifest.json"
CODE, PARAMETERS = ".tilewright.code.", ".tilewright.parameters."
"""Prefixes of the names of a region's sections."""


@dataclass(frozen=True)
class _Port:
    """An argument of `run`. tensor: its array in the model. size: float32 numbers of one sample, of this shape. checked: as of a step."""

    label: str
    tensor: str
    size: int
    shape: tuple[int, ...]
    checked: bool


@dataclass(frozen=True)
class CLibrary:
    """name: the prefix of the functions' names. files: by name, `NAME.h` and `NAME.c` among them."""

    name: str
    files: Mapping[str, bytes]


LINE_BYTES = 32
"""Bytes of the array in a line of its source."""


def c_library(bundle: Bundle, machines: Mapping[str, Machine], place: str = "", embedded: bytes = b"") -> CLibrary:
    """The same bytes for the same bundle. place: for messages. embedded: the bundle's file, which becomes an array of the library; none: whoever
    opens a model gives it.

    Raises UserError E1114 as `stand_alone` does, and for a region that runs on a device.
    """
    writer = written(bundle, machines, place)
    for region in bundle.manifest.regions:
        if not region.function:
            raise writer.refused(f"region '{region.name}' runs on a device, {region.target}, and a library has regions in C")
    inputs, outputs = _ports(writer, bundle.manifest.step_inputs, "in"), _ports(writer, bundle.manifest.step_outputs, "out")
    files = {each: (RUNTIME / each).read_bytes() for each in (HEADER, BUNDLE_SOURCE)} | region_sources(bundle)
    name = _name(bundle.manifest.model, files)
    files |= {f"{name}_bundle.c": _array(name, embedded)} if embedded else {}
    sources = " ".join(sorted({f"{name}.c", *(each for each in files if each.endswith(".c"))}))
    values = {
        "model": in_comment(bundle.manifest.model), "name": name, "inputs": inputs, "outputs": outputs, "steps": writer.steps, "sources": sources,
        "states": writer.states(),
        "memories": writer.memories(), "tensors": list(writer.tensors.values()), "rounded": ROUNDED[writer.rounding], "embedded": len(embedded),
        "manifest": digest(manifest_text(bundle).encode()),
    }  # fmt: skip
    made = {f"{name}.h": "library.h.j2", f"{name}.c": "library.c.j2", "CMakeLists.txt": "CMakeLists.txt.j2", f"{name}.pc.in": "library.pc.in.j2"}
    return CLibrary(name, files | {file: render("c99", template, **values).encode() for file, template in made.items()})


def _array(name: str, data: bytes) -> bytes:
    """A source file with the bytes in decimal, which is shorter than hexadecimal."""
    numbers = [str(byte) for byte in range(256)]
    rows = ",\n".join(",".join(numbers[byte] for byte in data[k : k + LINE_BYTES]) for k in range(0, len(data), LINE_BYTES))
    declared = f"const unsigned char {name}_bundle[{len(data)}]"
    return f"/* The bundle, byte for byte. */\nextern {declared};\n{declared} = {{\n{rows}\n}};\n".encode()


def _ports(writer: ProgramWriter, entries: Sequence[Interface], direction: str) -> list[_Port]:
    """Arguments whose names begin with their direction, so that none is a word of C or C++; no two alike without regard to case."""
    found: dict[str, _Port] = {}
    checked = {step.tensor for step in writer.steps if step.checked}
    for entry in entries:
        word = f"{direction}_{_word(entry.name)}"
        label = next(each for each in (word, *(f"{word}_{k}" for k in range(2, len(entries) + 2))) if each.lower() not in found)
        tensor = writer.tensors[entry.name].name
        found[label.lower()] = _Port(label, tensor, math.prod(entry.shape or ()), tuple(entry.shape or ()), tensor in checked)
    return list(found.values())


def _name(model: str, files: Mapping[str, bytes]) -> str:
    """A word that no other file has for a name."""
    word = _word(model)
    name = word if word[:1].isalpha() else f"model_{word}"
    return f"{name}_model" if {f"{name}.c", f"{name}.h", f"{name}_bundle.c"} & set(files) else name


def _word(text: str) -> str:
    """Letters, digits and single underscores."""
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")[:60]


@dataclass(frozen=True)
class LinkedMember:
    """A member of the bundle in the program. file: its bytes beside the program's sources. symbol: where it begins."""

    name: str
    section: str
    file: str
    symbol: str
    bytes: int


def elf_program(bundle: Bundle, machines: Mapping[str, Machine], place: str = "") -> bytes:
    """The executable for this system's processor; the same bytes for the same bundle and compiler. place: for messages.

    Raises UserError E1114 where the bundle is no program of its own, E0711 without a C compiler, E0710 where the compiler refuses or makes another
    format than ELF.
    """
    sources = stand_alone(bundle, machines, place, linked=True)
    for region in bundle.manifest.regions:
        if region.function:
            declared = f'void {region.function}(unsigned char *memory) __attribute__((section("{CODE}{_section_word(region.name)}")));\n'
            sources[f"{region.function}.c"] = declared.encode() + sources[f"{region.function}.c"]
    contents = {MANIFEST: manifest_text(bundle).encode(), **bundle.members}
    members = [
        LinkedMember(name, section, f"member{n}.bin", f"tilewright_member{n}", len(contents[name]))
        for n, (name, section) in enumerate(_sections(bundle))
    ]
    files = sources | {each.file: contents[each.name] for each in members}
    files |= {f"members.{kind}": render("c99", f"members.{kind}.j2", members=members).encode() for kind in ("c", "s")}
    found = link_program(files, FLAGS)
    if not found.startswith(MAGIC):
        raise fail("E0710", "the C compiler makes no ELF files", hint="name one that does in TILEWRIGHT_CC", place=place)
    return found


def _sections(bundle: Bundle) -> Iterator[tuple[str, str]]:
    """Members that are linked as they are, and their sections."""
    yield MANIFEST, ".tilewright.manifest"
    for region in bundle.manifest.regions:
        if not region.function:
            yield region.binary, f"{CODE}{_section_word(region.name)}"
        for member in region.constants.values():
            yield member, f"{PARAMETERS}{_section_word(region.name)}"
    for member in dict.fromkeys(state.start for state in bundle.manifest.states if state.start):
        yield member, f"{PARAMETERS}states"


def _section_word(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", name)
