"""Binary code: a machine's own instructions, in its object container."""

from dataclasses import dataclass

from toolchain.codegen.origins_file import origins_bytes
from toolchain.codegen.region_code import RegionCode
from toolchain.graph.graph_region import GraphRegion
from toolchain.isa.assembly.disassembler import disassemble
from toolchain.isa.binary.container import write_container
from toolchain.schedule.backend import Backend
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.compiled_region import CompiledRegion
from toolchain.schedule.form.schedule import Schedule
from toolchain.schedule.form.write import write_schedule
from toolchain.schedule.regions.region import Region


@dataclass(frozen=True)
class BinaryGenerator:
    """The generator of machines that have an encoding and kernels."""

    def generate(self, backend: Backend, region: Region | GraphRegion, schedule: Schedule | None = None) -> RegionCode:
        """Raises UserError as `compile_region` does."""
        assert isinstance(region, Region)
        return binary_code(compile_region(backend.machine, backend.kernels, region, schedule=schedule))


def binary_code(compiled: CompiledRegion) -> RegionCode:
    """A compiled region as bytes."""
    stored, program = compiled.map, compiled.program
    return RegionCode(
        target=program.machine.name,
        suffix="two",
        blob=write_container(program),
        source=disassemble(program),
        listing=listing_text(compiled),
        origins=origins_bytes(compiled.origins),
        schedule=write_schedule(compiled.schedule),
        map=stored,
        constants=compiled.constants,
        images=stored.rooms * stored.tensors[stored.outputs[0]].shape.batch,
        cycles=compiled.cycles,
    )


def listing_text(compiled: CompiledRegion) -> str:
    """A line for each instruction: its number, its name, and what it is for."""
    program = compiled.program
    kinds: list[int] = program.kind.tolist()
    names = [program.machine.instructions[kind].name for kind in kinds]
    return "".join(f"{number:6} {name:10} {label}".rstrip() + "\n" for number, (name, label) in enumerate(zip(names, compiled.listing, strict=True)))
