"""The machine side: every region to a program, and all of it into one file."""

import json
from pathlib import Path

from toolchain.codegen.generator import RegionCode
from toolchain.codegen.generators import GENERATORS
from toolchain.codegen.vendor_tool import tool_path
from toolchain.graph.preparation import Preparation
from toolchain.runtime.assemble import assemble_bundle
from toolchain.runtime.bundle import write_bundle
from toolchain.schedule.form.files import read_schedule_file
from toolchain.spec.files import write_atomic
from toolchain.tasks.actions.paths import bundle_file, machines_of, preparations_file, schedule_file
from toolchain.tasks.actions.schedule import forget_regions, regions_of
from toolchain.tasks.receipts import seen
from toolchain.tasks.stage import Say, Step
from toolchain.tasks.work import Made


def make_bundle(step: Step, say: Say) -> Made:
    """Also leaves each region's text: assembly before synchronisation with what each instruction is for, or C. Raises UserError E10xx, E06xx."""
    found, tools = regions_of(step.job), seen(*(tool_path(machine, machine.tool.compiler) for machine in machines_of(step.job) if machine.tool))
    made: dict[str, RegionCode] = {}
    for number, (backend, region) in enumerate(found.regions):
        say(f"region {number + 1} of {len(found.regions)}: its program")
        schedule = read_schedule_file(schedule_file(step.job, region.name)) if backend.tiled else None
        made[region.name] = GENERATORS[backend.machine.codegen].generate(backend, region, schedule)
    say("writing the bundle")
    path = bundle_file(step.job)
    write_bundle(path, assemble_bundle(step.job.model, machines_of(step.job), found.model, made, _preparations(step)))
    forget_regions()
    return Made([path, *(text for name, one in made.items() for text in _texts(step.folder / name, one))], tools)


def _preparations(step: Step) -> dict[str, Preparation]:
    found = json.loads(preparations_file(step.job).read_text())
    return {name: Preparation(p["layout"], tuple(p["mean"]), tuple(p["std"]), p["scale"]) for name, p in found.items()}


def _texts(path: Path, code: RegionCode) -> list[Path]:
    """Assembly and its listing, or C with the files that it includes."""
    texts = {path.with_suffix(".asm" if code.listing else f".{code.suffix}"): code.source.encode()}
    texts |= {path.with_suffix(".txt"): code.listing.encode()} if code.listing else {}
    texts |= {path.with_name(name): data for name, data in code.files.items()}
    for file, data in texts.items():
        write_atomic(file, data)
    return [*texts]
