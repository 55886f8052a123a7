"""A bundle as one ELF file: the host's program, the machine code of its regions and their parameters, each in a section of its own.

Readers and loaders of ELF know a section by its name: `.tilewright.code.REGION` has a region's instructions as its device takes them, or its function
where a region is C; `.tilewright.parameters.REGION` its weights, biases and tables; `.tilewright.manifest` the bundle's plan; `.text` the program of
the host that drives it all.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from toolchain.analysis.compile import link_program
from toolchain.codegen.generator import render
from toolchain.runtime.bundle import manifest_text
from toolchain.runtime.contents import Bundle
from toolchain.runtime.stand_alone import stand_alone
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine

MAGIC = b"\x7fELF"
FLAGS = ("-std=c99", "-O3", "-ffp-contract=off", "-Wl,--build-id=none")
MANIFEST = "manifest.json"
CODE, PARAMETERS = ".tilewright.code.", ".tilewright.parameters."
"""What the names of a region's sections begin with."""


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
            declared = f'void {region.function}(unsigned char *memory) __attribute__((section("{CODE}{_word(region.name)}")));\n'
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
            yield region.binary, f"{CODE}{_word(region.name)}"
        for member in region.constants.values():
            yield member, f"{PARAMETERS}{_word(region.name)}"


def _word(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", name)
