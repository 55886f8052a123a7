"""`tilewright export`: a built model in another form."""

import argparse
import os
from pathlib import Path

from toolchain.runtime.bundle import read_bundle
from toolchain.runtime.ep_context import ep_context_model
from toolchain.runtime.machine import bundle_machines
from toolchain.runtime.stand_alone import stand_alone
from toolchain.spec.files import write_atomic


def export_c(arguments: argparse.Namespace) -> None:
    """Writes the program's files. Raises UserError E0001, E0005, E11xx for the bundle, E1114 where the model is no such program."""
    path, folder = Path(arguments.bundle), Path(arguments.output)
    bundle = read_bundle(path)
    files = stand_alone(bundle, bundle_machines(bundle.manifest.targets, str(path)), str(path))
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        write_atomic(folder / name, data)
    sources = " ".join(["program.c", *sorted(name for name in files if name.endswith(".c") and name != "program.c")])
    print(f"{folder}: {len(files)} files; cc -std=c99 -O3 {sources} -lm -o model")


def export_onnx(arguments: argparse.Namespace) -> None:
    """Writes the model. Raises UserError E0001, E0005, E11xx for the bundle, E1118 where it cannot be such a model."""
    path, output = Path(arguments.bundle), Path(arguments.output)
    bundle = read_bundle(path)
    context = path.read_bytes() if arguments.embed else os.path.relpath(path, output.parent)
    model = ep_context_model(bundle, context, str(path))
    write_atomic(output, model.SerializeToString(deterministic=True))
    regions = sum(node.op_type == "EPContext" for node in model.graph.node)
    print(f"{output}: {len(model.graph.node)} nodes, {regions} of them compiled; {'the bundle is inside' if arguments.embed else f'reads {context}'}")
