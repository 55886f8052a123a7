"""A partitioned model and its compiled regions to a bundle."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from toolchain.graph.rewrite import shape_of
from toolchain.isa.binary.container import write_container
from toolchain.passes.quantize import SCALE
from toolchain.runtime.archive import data_name
from toolchain.runtime.contents import Bundle, HostSegment, Interface, Manifest, Port, RegionProgram, Step
from toolchain.runtime.host_segments import HostModel, RegionCall, cut_model
from toolchain.runtime.machine import target_of
from toolchain.schedule.compiled_region import CompiledRegion
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine


def assemble_bundle(name: str, machine: Machine, model: ir.Model, regions: Mapping[str, CompiledRegion]) -> Bundle:
    """regions: by the name of the function that a call names. Raises UserError E1109 for a region that is not compiled."""
    members: dict[str, bytes] = {}
    hosts, programs, plan = list[HostSegment](), list[RegionProgram](), list[Step]()
    for step in cut_model(model):
        if isinstance(step, HostModel):
            plan.append(Step("host", len(hosts)))
            hosts.append(_host(step, len(hosts), members))
        else:
            if step.region not in regions:
                raise fail("E1109", f"the region '{step.region}' has no program", hint="compile it first", place=name)
            plan.append(Step("region", len(programs)))
            programs.append(_region(step, regions[step.region], len(programs), members))
    ends = [tuple(_interface(value) for value in values) for values in (model.graph.inputs, model.graph.outputs)]
    return Bundle(Manifest(name, target_of(machine), ends[0], ends[1], tuple(plan), tuple(hosts), tuple(programs)), members)


def _host(step: HostModel, number: int, members: dict[str, bytes]) -> HostSegment:
    member = f"host{number}.onnx"
    members.update({member: step.model, **step.constants})
    return HostSegment(member, step.inputs, step.outputs, step.work)


def _region(call: RegionCall, compiled: CompiledRegion, number: int, members: dict[str, bytes]) -> RegionProgram:
    binary, listing = f"region{number}.two", f"region{number}.txt"
    constants = {name: data_name(data) for name, data in compiled.constants.items() if data}
    members.update({member: compiled.constants[name] for name, member in constants.items()})
    members.update({binary: write_container(compiled.program), listing: listing_text(compiled).encode()})
    inputs, outputs = (_ports(values, names) for values, names in ((call.inputs, compiled.map.inputs), (call.outputs, compiled.map.outputs)))
    stored = compiled.map.tensors[compiled.map.outputs[0]].shape
    samples = math.prod(stored) // math.prod(shape_of(call.outputs[0]))
    return RegionProgram(call.region, samples, binary, listing, compiled.map, inputs, outputs, constants, compiled.cycles)


def _ports(values: Sequence[ir.Value], names: Sequence[str]) -> tuple[Port, ...]:
    """The graph's tensors and the region's; the latter are called the same, or stand in the same order."""
    own = [value.name or "" for value in values]
    matched = own if set(own) <= set(names) else names
    return tuple(Port(name, tensor, shape_of(value)) for name, tensor, value in zip(own, matched, values, strict=True))


def listing_text(compiled: CompiledRegion) -> str:
    """A line for each instruction: its number, its name, and what it is for."""
    program = compiled.program
    kinds: list[int] = program.kind.tolist()
    names = [program.machine.instructions[kind].name for kind in kinds]
    return "".join(f"{number:6} {name:10} {label}".rstrip() + "\n" for number, (name, label) in enumerate(zip(names, compiled.listing, strict=True)))


def _interface(value: ir.Value) -> Interface:
    dtype = np.dtype(value.dtype.numpy()) if value.dtype is not None else np.dtype(np.float32)
    scale = value.metadata_props.get(SCALE)
    return Interface(value.name or "", shape_of(value), dtype.name, float.fromhex(scale) if scale else 0.0)
