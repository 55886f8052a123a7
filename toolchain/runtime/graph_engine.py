"""The emulator of machines that take a graph: an engine is built of the JSON once, when the bundle is loaded, and ONNX Runtime runs it."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from toolchain.graph.running.session import Session, open_session, run_session
from toolchain.runtime.contents import Bundle, RegionProgram
from toolchain.runtime.handover import Value, array_of
from toolchain.runtime.timing import Shares
from toolchain.spec.errors import UserError, fail

FORMAT, VERSION = "tilewright-graph", 1
IR_VERSION = 10
Tensors = dict[str, Value]


@dataclass(frozen=True)
class OnnxEngine:
    """A built engine. Any number of threads may run it."""

    region: RegionProgram
    session: Session

    def run(self, samples: Sequence[Mapping[str, Value]], kept: Collection[str] = ()) -> tuple[list[Tensors], Shares]:
        """Raises UserError E0910 where ONNX Runtime stops."""
        del kept  # tensors have no other form
        start, made = perf_counter(), list[Tensors]()
        for sample in samples:
            given = {port.tensor: array_of(sample[port.name]) for port in self.region.inputs}
            found = run_session(self.session, given, [port.tensor for port in self.region.outputs])
            made.append({port.name: found[port.tensor] for port in self.region.outputs})
        return made, Shares(execute=perf_counter() - start)


def build_engine(region: RegionProgram, text: bytes, constants: bytes, place: str, optimise: bool = True) -> OnnxEngine:
    """text: the graph in JSON. constants: the bytes of its segment. optimise: whether ONNX Runtime may rewrite the graph.

    Raises UserError E1115 for a graph that is damaged, E0910 where ONNX Runtime refuses it.
    """
    try:
        model = graph_model(json.loads(text), constants)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise _damaged(region, str(error), place) from None
    ports = ([entry.name for entry in model.graph.input], [entry.name for entry in model.graph.output])
    if ports != ([port.tensor for port in region.inputs], [port.tensor for port in region.outputs]):
        raise _damaged(region, "its inputs and outputs are not the region's", place)
    return OnnxEngine(region, open_session(model.SerializeToString(), optimise, place=place))


def engine_of(bundle: Bundle, region: RegionProgram, place: str, optimise: bool = True) -> OnnxEngine:
    """The engine of a region in a bundle. Raises UserError as `build_engine` does."""
    constants = bundle.members[region.constants["constants"]] if region.constants else b""
    return build_engine(region, bundle.members[region.binary], constants, place, optimise)


def _damaged(region: RegionProgram, text: str, place: str) -> UserError:
    return fail("E1115", f"the graph of region '{region.name[:80]}' is damaged: {text[:120]}", hint="build the model again", place=place)


def graph_model(held: Any, constants: bytes) -> onnx.ModelProto:
    """The graph as an ONNX model. Raises KeyError, TypeError, ValueError or AttributeError for anything that is no such graph."""
    if held["format"] != FORMAT or held["version"] != VERSION:
        raise ValueError(f"it is not {FORMAT} {VERSION}")
    inputs, outputs = ([_entry(entry) for entry in held[side]] for side in ("inputs", "outputs"))
    weights = [numpy_helper.from_array(_constant(entry, constants), entry["name"]) for entry in held["constants"]]
    nodes = [_node(entry) for entry in held["nodes"]]
    graph = helper.make_graph(nodes, str(held["name"]), inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", int(held["opset"]))], ir_version=IR_VERSION)


def _entry(entry: Any) -> onnx.ValueInfoProto:
    """An input or output."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(entry["dtype"]))
    return helper.make_tensor_value_info(str(entry["name"]), kind, [int(size) for size in entry["shape"]])


def _constant(entry: Any, constants: bytes) -> NDArray[Any]:
    shape, dtype, offset = tuple(int(size) for size in entry["shape"]), np.dtype(entry["dtype"]), int(entry["offset"])
    if dtype.hasobject or offset < 0 or min(shape, default=0) < 0:
        raise ValueError(f"constant '{entry['name']}' cannot be")
    count = int(np.prod(shape, dtype=object))
    if offset + count * dtype.itemsize > len(constants):
        raise ValueError(f"constant '{entry['name']}' goes past its segment")
    return np.frombuffer(constants, dtype, count, offset).reshape(shape)


def _node(entry: Any) -> onnx.NodeProto:
    given = {name: _value(kind) for name, kind in entry["attributes"].items()}
    names = [[str(name) for name in entry[side]] for side in ("inputs", "outputs")]
    return helper.make_node(str(entry["operator"]), *names, name=str(entry["name"]), **given)


def _value(held: Any) -> Any:
    """The one value of `{TYPE: VALUE}`."""
    ((kind, value),) = held.items()
    many, single = kind.endswith("s"), {"int": int, "float": float, "string": str}[kind.removesuffix("s")]
    return [single(each) for each in value] if many else single(value)
