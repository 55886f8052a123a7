"""A small partitioned network of the tests: two regions with a host operator between them, and what is compiled of it."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx_ir as ir

from tests.operations import made
from tests.operations.made import load_machine
from toolchain.abi.dram_map import Shape
from toolchain.codegen.binary import binary_code
from toolchain.graph.importing.versions import OPSET
from toolchain.graph.integers.calls import BOUNDARY, SCALE, boundary_call, integer_call
from toolchain.graph.regions import REGION
from toolchain.graph.rewrite import add_constant
from toolchain.operations.library import builtin_kinds
from toolchain.operations.operation import Operation
from toolchain.passes.partition import outline
from toolchain.runtime.assemble import assemble_bundle
from toolchain.runtime.contents import Bundle
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.program import CompiledRegion
from toolchain.schedule.regions.region import Bound, Region
from toolchain.spec.model import Machine

LIMITS = {"low": -128, "high": 127}


@dataclass
class Builder:
    """A graph that grows node by node; convolutions are kept as operations by the name of their node."""

    machine: Machine
    model: ir.Model
    operations: dict[str, Operation]
    seed: int = 0

    def call(self, kind: str, inputs: list[ir.Value], attributes: dict[str, Any], name: str, shape: tuple[int, ...], dtype: ir.DataType) -> ir.Value:
        assert self.machine.quantisation is not None
        if kind in BOUNDARY:
            node = boundary_call(self.model, kind, inputs[:1], attributes, name, self.machine.quantisation)
        else:
            node = integer_call(self.model, builtin_kinds()[kind], "", inputs, attributes, name, self.machine.quantisation)
        return self.placed(node, shape, dtype)

    def placed(self, node: ir.Node, shape: tuple[int, ...], dtype: ir.DataType) -> ir.Value:
        self.model.graph.append(node)
        value = node.outputs[0]
        value.name, value.shape, value.type = f"{node.name}.y", ir.Shape(shape), ir.TensorType(dtype)
        if dtype == ir.DataType.INT8:
            value.metadata_props[SCALE] = (0.125).hex()
        return value

    def conv(self, x: ir.Value, channels: int, name: str) -> ir.Value:
        assert x.shape is not None
        self.seed += 1
        rng = np.random.default_rng(self.seed)
        shape = tuple(int(size) for size in x.shape.numpy())
        weight = rng.integers(-20, 21, (channels, shape[1], 3, 3), np.int8)
        bias = rng.integers(-500, 501, channels).astype(np.int32)
        self.operations[name] = made.conv2d(name, shape, weight, bias, pads=(1, 1, 1, 1), shift=7)  # type: ignore[arg-type]
        window = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1), "group": 1}
        constants = [add_constant(self.model.graph, f"{name}.w", weight), add_constant(self.model.graph, f"{name}.b", bias)]
        attributes = {**window, "bias_shift": 0, "shift": 7, **LIMITS}
        return self.call("conv2d", [x, *constants], attributes, name, (1, channels, *shape[2:]), ir.DataType.INT8)


@cache
def network(target: str = "vta", copies: int = 1) -> tuple[Machine, ir.Model, dict[str, CompiledRegion]]:
    """copies: of each region, side by side.

    x -> quantize -> [conv conv] -> dequantize -> Sigmoid -> quantize -> [conv] -> dequantize -> y, and the stored result as well."""
    machine = load_machine(target)
    x = ir.Value(name="x", shape=ir.Shape((1, 3, 8, 8)), type=ir.TensorType(ir.DataType.FLOAT))
    model = ir.Model(ir.Graph([x], [], nodes=[], opset_imports={"": OPSET}, name="small"), ir_version=8)
    build = Builder(machine, model, {})
    integers, floats = ir.DataType.INT8, ir.DataType.FLOAT
    q = build.call("quantize", [x], {"scale": 0.125, **LIMITS}, "q", (1, 3, 8, 8), integers)
    a = build.conv(q, 20, "conv1")
    b = build.conv(a, 16, "conv2")
    d = build.call("dequantize", [b], {"scale": 0.125}, "d", (1, 16, 8, 8), floats)
    s = build.placed(ir.node("Sigmoid", [d], name="s", num_outputs=1), (1, 16, 8, 8), floats)
    r = build.call("quantize", [s], {"scale": 1 / 128, **LIMITS}, "r", (1, 16, 8, 8), integers)
    c = build.conv(r, 10, "conv3")
    y = build.call("dequantize", [c], {"scale": 0.125}, "end", (1, 10, 8, 8), floats)
    model.graph.outputs.extend([y, c])
    compiled: dict[str, CompiledRegion] = {}
    for number, names in enumerate((("conv1", "conv2"), ("conv3",))):
        nodes = [node for node in model.graph if node.name in names]
        region = _region(f"region{number}", nodes, build.operations, machine)
        outline(model, nodes, REGION, region.name, {})
        compiled[region.name] = compile_region(machine, load_kernels(machine), region, Options(copies=copies))
    model.graph.sort()
    return machine, model, compiled


def _region(name: str, nodes: list[ir.Node], operations: dict[str, Operation], machine: Machine) -> Region:
    batch = int(np.prod([level.count for level in machine.levels if level.lockstep]))
    bound, shapes = list[Bound](), dict[str, Shape]()
    for node in nodes:
        old = operations[node.name or ""]
        operation = made.conv2d(
            old.name, (batch, *old.input("x")[1:]), old.arrays["weight"], old.arrays["bias"], pads=made.pads(old), shift=old.numbers["shift"]
        )
        x, y = node.inputs[0], node.outputs[0]
        assert x is not None
        tensors = {"x": x.name or "", "y": y.name or ""}
        shapes |= {tensors["x"]: Shape(*operation.input("x")), tensors["y"]: Shape(*operation.output)}
        bound.append(Bound(operation, tensors))
    return Region(name, shapes, (bound[0].tensors["x"],), (bound[-1].tensors["y"],), tuple(bound), {})


def bundle(target: str = "vta", copies: int = 1) -> Bundle:
    machine, model, compiled = network(target, copies)
    return assemble_bundle("small", [machine], model, {name: binary_code(region) for name, region in compiled.items()})


def images(count: int) -> np.typing.NDArray[np.float32]:
    return (np.random.default_rng(5).integers(-64, 64, (count, 3, 8, 8)) / 8).astype(np.float32)
