"""A partitioned model and the code of its regions to a bundle."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from toolchain.codegen.region_code import RegionCode
from toolchain.graph.integers.calls import SCALE
from toolchain.graph.nodes.rewrite import shape_of
from toolchain.graph.preparation import Preparation
from toolchain.runtime.archive import data_name
from toolchain.runtime.contents import Bundle, HostSegment, Interface, Manifest, PlanStep, Port, RegionProgram
from toolchain.runtime.host_segments import HostModel, RegionCall, cut_model
from toolchain.runtime.machine import target_of
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine

PLAIN = (
    ir.DataType.BOOL, ir.DataType.FLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE,
    ir.DataType.INT8, ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64,
    ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64,
)  # fmt: skip
"""Types that numpy has."""


def assemble_bundle(
    name: str,
    machines: Sequence[Machine],
    model: ir.Model,
    regions: Mapping[str, RegionCode],
    preparations: Mapping[str, Preparation] | None = None,
) -> Bundle:
    """machines: the first choice first. regions: by the name of the function that a call names. preparations: of inputs by name.

    Raises UserError E1109 for a region not compiled.
    """
    members: dict[str, bytes] = {}
    hosts, programs, plan = list[HostSegment](), list[RegionProgram](), list[PlanStep]()
    for step in cut_model(model):
        if isinstance(step, HostModel):
            plan.append(PlanStep("host", len(hosts)))
            hosts.append(_host(step, len(hosts), members))
        else:
            if step.region not in regions:
                raise fail("E1109", f"the region '{step.region}' has no program", hint="compile it first", place=name)
            plan.append(PlanStep("region", len(programs)))
            programs.append(_region(step, regions[step.region], len(programs), members))
    inputs = tuple(replace(_interface(value), preparation=(preparations or {}).get(value.name or "")) for value in model.graph.inputs)
    outputs = tuple(_interface(value) for value in model.graph.outputs)
    return Bundle(
        Manifest(name, tuple(target_of(machine) for machine in machines), inputs, outputs, tuple(plan), tuple(hosts), tuple(programs)), members
    )


def _host(step: HostModel, number: int, members: dict[str, bytes]) -> HostSegment:
    member = f"host{number}.onnx"
    members.update({member: step.model, **step.constants})
    return HostSegment(member, step.inputs, step.outputs, step.work)


def _region(call: RegionCall, code: RegionCode, number: int, members: dict[str, bytes]) -> RegionProgram:
    texts = {"binary": (code.suffix, code.blob), "origins": ("json", code.origins), "schedule": ("yaml", code.schedule.encode())}
    named = {part: f"region{number}.{suffix}" if data else "" for part, (suffix, data) in texts.items()}
    constants = {name: data_name(data) for name, data in code.constants.items() if data}
    files = {name: data_name(data) for name, data in code.files.items()}
    members.update({member: code.constants[name] for name, member in constants.items()})
    members.update({named[part]: data for part, (_, data) in texts.items() if data})
    members.update({member: code.files[name] for name, member in files.items()})
    inputs, outputs = (_ports(values, names) for values, names in ((call.inputs, code.map.inputs), (call.outputs, code.map.outputs)))
    return RegionProgram(
        call.region, code.target, code.images, named["binary"], named["origins"], named["schedule"], code.map, inputs, outputs,
        constants, code.cycles, files, code.function,
    )  # fmt: skip


def _ports(values: Sequence[ir.Value], names: Sequence[str]) -> tuple[Port, ...]:
    """The graph's tensors and the region's; the latter are called the same, or stand in the same order."""
    own = [value.name or "" for value in values]
    matched = own if set(own) <= set(names) else names
    return tuple(Port(name, tensor, shape_of(value)) for name, tensor, value in zip(own, matched, values, strict=True))


def _interface(value: ir.Value) -> Interface:
    scale = value.metadata_props.get(SCALE)
    tensor = isinstance(value.type, ir.TensorType)
    shape = None if value.shape is None or not tensor else tuple(size if isinstance(size, int) else -1 for size in value.shape)
    return Interface(value.name or "", shape, _dtype(value), float.fromhex(scale) if scale else 0.0)


def _dtype(value: ir.Value) -> str:
    """numpy's name of the type; ONNX's where numpy has none, and for what is no tensor."""
    if not isinstance(value.type, ir.TensorType) or value.dtype is None:
        return str(value.type)
    return str(np.dtype(value.dtype.numpy()).name) if value.dtype in PLAIN else value.dtype.name.lower()
