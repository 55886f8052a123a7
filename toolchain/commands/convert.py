"""`tilewright asm`, `disasm`, `extract` and `export`: a file to another form."""

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from toolchain.commands.machine import machine_of, sign
from toolchain.spec.errors import fail
from toolchain.spec.files import write_atomic

if TYPE_CHECKING:
    import onnx


def assemble(arguments: argparse.Namespace) -> None:
    """Assembles a file; the output's suffix chooses the form (.hex words, .two container, anything else raw)."""
    from toolchain.isa.program_file import load_program, save_program

    machine = machine_of(arguments)
    source = Path(arguments.source)
    suffix = ".two" if machine.streams > 1 else ".bin"
    output = Path(arguments.output) if arguments.output else source.with_suffix(suffix)
    with sign("assembling"):
        program = load_program(machine, source)
        save_program(program, output)
    print(f"{output}: {len(program)} instructions, {sum(map(len, program.streams))} bytes")


def disassemble(arguments: argparse.Namespace) -> None:
    """Writes assembly that assembles to the same bytes."""
    from toolchain.isa.assembly import disassemble as text_of
    from toolchain.isa.program_file import load_program

    comments = None
    with sign("disassembling"):
        program = load_program(machine_of(arguments), Path(arguments.program))
        if arguments.footprints:
            from toolchain.analysis.checks import footprint_comments

            comments = footprint_comments(program)
        text = text_of(program, comments)
    if arguments.output:
        write_atomic(Path(arguments.output), text.encode())
    else:
        sys.stdout.write(text)


def extract(arguments: argparse.Namespace) -> None:
    """Writes the part, opens it in ONNX Runtime, and prints its inputs and outputs. Raises UserError E0005, E0910 and all of extract_model."""
    from toolchain.graph.files import write_proto
    from toolchain.graph.nodes import shape_text
    from toolchain.graph.pieces import extract_model
    from toolchain.graph.session import open_session

    source, path = Path(arguments.model), Path(arguments.output)
    proto = extract_model(source, arguments.inputs, arguments.outputs)
    ends = {"takes": [entry.name for entry in proto.graph.input], "gives": [entry.name for entry in proto.graph.output]}
    light = _light(proto)
    write_proto(proto, source, path)
    session = open_session(path if light is None else light, optimise=False, place=str(path))
    found = {entry.name: entry for entry in (*session.get_inputs(), *session.get_outputs())}
    nodes, held = len(proto.graph.node), len(proto.graph.initializer)
    print(f"{path}: {nodes} {'node' if nodes == 1 else 'nodes'}, {held} {'constant' if held == 1 else 'constants'}")
    for word, names in ends.items():
        for name in names:
            print(f"  {word}  {name}  {found[name].type} {shape_text(found[name].shape)}")


def _light(proto: "onnx.ModelProto") -> bytes | None:
    """The model with inputs in place of its weights, which ONNX Runtime would read and copy; None where a graph inside reads some of them."""
    from onnx import ModelProto

    from toolchain.graph.files import constants, is_external, take_weights

    copy = ModelProto()
    copy.CopyFrom(proto)
    take_weights(copy)
    return None if any(is_external(tensor) for _, tensor in constants(copy.graph)) else copy.SerializeToString()


def export_c(arguments: argparse.Namespace) -> None:
    """Writes the program's files.

    Raises UserError E0001, E0005, E11xx for the bundle, E1114 where the model is no such program, E0002 for --embed without --library.
    """
    from toolchain.runtime.bundle import trusted_bundle
    from toolchain.runtime.linked import c_library
    from toolchain.runtime.stand_alone import stand_alone

    if arguments.embed and not arguments.library:
        raise fail("E0002", "--embed is for a library", hint="add --library; `tilewright export elf` makes a program with its bundle inside")
    path, folder = Path(arguments.bundle), Path(arguments.output)
    bundle, machines = trusted_bundle(path)
    library = c_library(bundle, machines, str(path), path.read_bytes() if arguments.embed else b"") if arguments.library else None
    files = library.files if library else stand_alone(bundle, machines, str(path))
    _write(folder, files)
    sources = " ".join(sorted((name for name in files if name.endswith(".c")), key=lambda name: (name != "program.c", name)))
    flags, made = ("-O3", "model") if library is None else ("-O3 -ffp-contract=off -fPIC -fvisibility=hidden -shared", f"lib{library.name}.so")
    print(f"{folder}: {len(files)} files; cc -std=c99 {flags} {sources} -lm -o {made}")


def export_elf(arguments: argparse.Namespace) -> None:
    """Writes the program. Raises UserError E0001, E0005, E11xx for the bundle, E1114 where the model is no such program, E0710 and E0711."""
    from toolchain.runtime.bundle import trusted_bundle
    from toolchain.runtime.linked import elf_program

    path, output = Path(arguments.bundle), Path(arguments.output)
    bundle, machines = trusted_bundle(path)
    with sign("compiling"):
        program = elf_program(bundle, machines, str(path))
    write_atomic(output, program)
    if output.is_file():
        output.chmod(output.stat().st_mode | 0o111)
    regions = len(bundle.manifest.regions)
    print(f"{output}: the host's program, code and parameters of {regions} region{'s' if regions != 1 else ''}; readelf -SW {output}")


def export_bundle(arguments: argparse.Namespace) -> None:
    """Writes the bundle with its machines inside. Raises UserError E0001, E0005 and E11xx."""
    from toolchain.runtime.bundle import described_bundle, trusted_bundle, write_bundle
    from toolchain.runtime.contents import description_name

    path, output = Path(arguments.bundle), Path(arguments.output)
    bundle, machines = trusted_bundle(path, arguments.machine)
    whole = described_bundle(bundle, machines, str(path))
    write_bundle(output, whole)
    size = sum(len(whole.members[description_name(number)]) for number in range(len(machines)))
    print(f"{output}: with {size} bytes that describe {' and '.join(machines)}; it needs no other file")


def export_onnx(arguments: argparse.Namespace) -> None:
    """Writes the model. Raises UserError E0001, E0005, E11xx for the bundle, E1118 where it cannot be such a model."""
    from toolchain.report.tables import counted
    from toolchain.runtime.bundle import read_bundle
    from toolchain.runtime.bundle_checks import trusted_keys
    from toolchain.runtime.provider import ep_context_model

    path, output = Path(arguments.bundle), Path(arguments.output)
    bundle = read_bundle(path, trusted_keys())
    context = path.read_bytes() if arguments.embed else os.path.relpath(path, output.parent)
    model = ep_context_model(bundle, context, str(path))
    write_atomic(output, model.SerializeToString(deterministic=True))
    regions = sum(node.op_type == "EPContext" for node in model.graph.node)
    held = "the bundle is inside" if arguments.embed else f"reads {context}"
    print(f"{output}: {counted(len(model.graph.node), 'node')}, {regions} of them compiled; {held}")


def export_provider(arguments: argparse.Namespace) -> None:
    """Writes the plug-in's files. Raises UserError E0001, E0005, E11xx for the bundle, E1114 where a region is none that C can run."""
    from toolchain.runtime.bundle import trusted_bundle
    from toolchain.runtime.provider import provider

    path, folder = Path(arguments.bundle), Path(arguments.output)
    made = provider(*trusted_bundle(path), str(path))
    _write(folder, made.files)
    flags = "-std=c99 -O3 -ffp-contract=off -fPIC -fvisibility=hidden -shared"
    print(f"{folder}: {len(made.files)} files; cc {flags} {' '.join(made.sources)} -lm -lpthread -o libprovider.so")


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        write_atomic(folder / name, data)
