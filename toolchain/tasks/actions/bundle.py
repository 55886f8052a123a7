"""The machine side: every region to a program, and all of it into one file."""

import json
from collections.abc import Callable
from pathlib import Path

from toolchain.graph.preparation import Preparation
from toolchain.graph.regions import region_calls
from toolchain.graph.stage_file import read_stage
from toolchain.runtime.assemble import assemble_bundle, listing_text
from toolchain.runtime.bundle import write_bundle
from toolchain.schedule.compiled_region import CompiledRegion
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.network import Options, compile_region
from toolchain.schedule.regions.read_region import read_region
from toolchain.spec.files import write_atomic
from toolchain.tasks.actions.paths import bundle_file, graph_file, machine_of, preparations_file
from toolchain.tasks.stage import Say, Step
from toolchain.tasks.work import Made


def make_bundle(step: Step, say: Say) -> Made:
    """Also leaves each region's assembly before synchronisation, and what each instruction of it is for. Raises UserError E10xx."""
    machine, model = machine_of(step.job), read_stage(graph_file(step.job))
    kernels = load_kernels(machine)
    regions: dict[str, CompiledRegion] = {}
    calls = region_calls(model)
    for number, call in enumerate(calls):
        region = read_region(machine, kernels, model, call)
        regions[call.op_type] = compile_region(machine, kernels, region, Options(progress=_progress(number, len(calls), say)))
    say("writing the bundle")
    path = bundle_file(step.job)
    write_bundle(path, assemble_bundle(step.job.model, machine, model, regions, _preparations(step)))
    return Made([path, *(text for name, compiled in regions.items() for text in _texts(step.folder / name, compiled))])


def _progress(number: int, regions: int, say: Say) -> Callable[[int, int, str], None]:
    return lambda index, count, name: say(f"region {number + 1} of {regions}: operation {index + 1} of {count}, {name}")


def _preparations(step: Step) -> dict[str, Preparation]:
    found = json.loads(preparations_file(step.job).read_text())
    return {name: Preparation(p["layout"], tuple(p["mean"]), tuple(p["std"]), p["scale"]) for name, p in found.items()}


def _texts(path: Path, compiled: CompiledRegion) -> list[Path]:
    assembly, listing = path.with_suffix(".asm"), path.with_suffix(".txt")
    write_atomic(assembly, compiled.text.encode())
    write_atomic(listing, listing_text(compiled).encode())
    return [assembly, listing]
