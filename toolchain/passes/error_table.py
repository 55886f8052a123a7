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
Doubles = np.typing.NDArray[np.float64]
MOST = 1e300
"""Stands for energy without end; 1 / MOST for none."""


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


@dataclass(frozen=True)
class Errors:
    """tensors: the stored ones, worst first. outputs: signal to quantisation noise of the whole model's floating-point outputs by name, dB."""

    tensors: tuple[Row, ...]
    outputs: Mapping[str, float]


def error_table(reference: ir.Model, integer: ir.Model, samples: Samples) -> list[Row]:
    """The tensors of `measure_errors`."""
    return list(measure_errors(reference, integer, samples).tensors)


def measure_errors(reference: ir.Model, integer: ir.Model, samples: Samples) -> Errors:
    """Runs both networks on all samples ([count, ...] by input). reference: a float stage before quantisation."""
    check_oracle()
    stored = integer_tensors(integer)
    names = {value.metadata_props[FLOAT_NAME]: value for value in stored}
    watched = [value for node in reference.graph for value in node.outputs if value.name in names]
    floats, integers = open_model(reference, watched), open_model(integer, stored)
    outputs = [value.name or "" for value in reference.graph.outputs if value.dtype == ir.DataType.FLOAT]
    energies, ends = {name: _Energy() for name in names}, {name: _Energy() for name in outputs}
    sizes = {value.name or "": shape_of(value)[0] for value in reference.graph.inputs}
    for index in range(min(len(array) // sizes[name] for name, array in samples.items())):
        one = {name: array[index * sizes[name] : (index + 1) * sizes[name]] for name, array in samples.items()}
        wanted, found = run_session(floats, one) | one, run_session(integers, one)
        for name, value in names.items():
            _add_stored(energies[name], wanted[name], found[value.name or ""], float.fromhex(value.metadata_props[SCALE]))
        for name, energy in ends.items():
            _add(energy, wanted[name].astype(np.float64), found[name].astype(np.float64))
    rows = [_row(name, value, energies[name]) for name, value in names.items()]
    ordered = sorted(rows, key=lambda row: (row.sqnr, row.tensor))
    return Errors(tuple(ordered), {name: _ratio(energy) for name, energy in ends.items()})


def _add_stored(energy: _Energy, wanted: np.typing.NDArray[Any], found: np.typing.NDArray[np.int8], scale: float) -> None:
    _add(energy, wanted.astype(np.float64), (found * scale).astype(np.float64))
    energy.clipped.append(float(((found == 127) | (found <= -127)).mean()))


def _add(energy: _Energy, wanted: Doubles, found: Doubles) -> None:
    """What is not finite in both counts as nothing; in one of them only it is noise without end."""
    equal = (wanted == found) | (np.isnan(wanted) & np.isnan(found))
    noise = found[~equal] - wanted[~equal]
    energy.signal += float((wanted[np.isfinite(wanted)] ** 2).sum())
    energy.noise += float(np.nan_to_num(noise**2, nan=MOST, posinf=MOST).sum())


def _ratio(energy: _Energy) -> float:
    """dB, infinite without any noise."""
    return math.inf if energy.noise == 0 else 10 * math.log10(min(max(energy.signal, 1 / MOST), MOST) / min(energy.noise, MOST))


def _row(name: str, value: ir.Value, energy: _Energy) -> Row:
    maker = value.producer()
    clipped = sum(energy.clipped) / len(energy.clipped)
    return Row(name, maker.op_type if maker else "", _ratio(energy), float.fromhex(value.metadata_props[SCALE]), clipped)


def error_text(rows: Sequence[Row]) -> str:
    """The table as text; units in the header."""
    width = max([len(row.tensor) for row in rows] + [6])
    lines = [f"{'tensor':<{width}}  {'operation':<14} {'SQNR [dB]':>9}  {'scale':>12}  {'clipped [%]':>11}"]
    lines += [f"{row.tensor:<{width}}  {row.operation:<14} {row.sqnr:>9.2f}  {row.scale:>12.6g}  {100 * row.clipped:>11.3f}" for row in rows]
    return "\n".join(lines) + "\n"
