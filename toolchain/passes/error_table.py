"""How far each tensor of the integer network is from the float one: signal to noise in dB, worst first."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from toolchain.graph.canary import check_oracle
from toolchain.graph.integer_graph import integer_tensors
from toolchain.graph.rewrite import shape_of
from toolchain.graph.running import open_model
from toolchain.graph.session import run_session
from toolchain.passes.quantize import FLOAT_NAME, SCALE

Samples = Mapping[str, np.typing.NDArray[Any]]


@dataclass(frozen=True)
class Row:
    """One tensor. sqnr: signal to quantisation noise, dB. clipped: share of values at a limit of what is stored."""

    tensor: str
    operation: str
    sqnr: float
    scale: float
    clipped: float


@dataclass
class _Energy:
    signal: float = 0.0
    noise: float = 0.0
    clipped: list[float] = field(default_factory=list[float])


def error_table(reference: ir.Model, integer: ir.Model, samples: Samples) -> list[Row]:
    """Runs both networks on all samples ([count, ...] by input), worst tensor first. reference: a float stage before quantisation."""
    check_oracle()
    stored = integer_tensors(integer)
    names = {value.metadata_props[FLOAT_NAME]: value for value in stored}
    watched = [value for node in reference.graph for value in node.outputs if value.name in names]
    floats, integers = open_model(reference, watched), open_model(integer, stored)
    energies = {name: _Energy() for name in names}
    sizes = {value.name or "": shape_of(value)[0] for value in reference.graph.inputs}
    for index in range(min(len(array) // sizes[name] for name, array in samples.items())):
        one = {name: array[index * sizes[name] : (index + 1) * sizes[name]] for name, array in samples.items()}
        wanted, found = run_session(floats, one) | one, run_session(integers, one)
        for name, value in names.items():
            _add(energies[name], wanted[name], found[value.name or ""], float.fromhex(value.metadata_props[SCALE]))
    rows = [_row(name, value, energies[name]) for name, value in names.items()]
    return sorted(rows, key=lambda row: (row.sqnr, row.tensor))


def _add(energy: _Energy, wanted: np.typing.NDArray[Any], found: np.typing.NDArray[np.int8], scale: float) -> None:
    exact = wanted.astype(np.float64)
    energy.signal += float((exact**2).sum())
    energy.noise += float(((found * scale - exact) ** 2).sum())
    energy.clipped.append(float(((found == 127) | (found <= -127)).mean()))


def _row(name: str, value: ir.Value, energy: _Energy) -> Row:
    maker = value.producer()
    ratio = math.inf if energy.noise == 0 else 10 * math.log10(max(energy.signal, 1e-300) / energy.noise)
    clipped = sum(energy.clipped) / len(energy.clipped)
    return Row(name, maker.op_type if maker else "", ratio, float.fromhex(value.metadata_props[SCALE]), clipped)


def error_text(rows: Sequence[Row]) -> str:
    """The table as text; units in the header."""
    width = max([len(row.tensor) for row in rows] + [6])
    lines = [f"{'tensor':<{width}}  {'operation':<14} {'SQNR [dB]':>9}  {'scale':>12}  {'clipped [%]':>11}"]
    lines += [f"{row.tensor:<{width}}  {row.operation:<14} {row.sqnr:>9.2f}  {row.scale:>12.6g}  {100 * row.clipped:>11.3f}" for row in rows]
    return "\n".join(lines) + "\n"
