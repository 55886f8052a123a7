"""The float network of every stage is that of the file that the user gave; a pass that changes it is an error."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx_ir as ir

from toolchain.graph.equivalence import find_mismatch, same_but_ones, same_operator
from toolchain.graph.importing.foreign_operators import WRITTEN
from toolchain.graph.quantisation.table import Table
from toolchain.graph.rewrite import constant, is_float, is_operator, known_shape
from toolchain.graph.session import ONCE, THREADS, Session, open_session, run_session
from toolchain.graph.store import Store, open_model
from toolchain.spec.arrays import Array
from toolchain.spec.errors import UserError, fail

Tensors = Mapping[str, Array]
NOISE = 1e-6
"""Share of an output's energy that rounding may account for, through all of a network; one operator at a time, far less is allowed."""

TIES = 1e-2
"""Share of the energy where a model rounds its own tensors: sums halfway between two steps may fall to either, layer after layer (1e-3 measured on
EfficientNet-lite0 with fifty layers). ONNX Runtime itself has two average pools, before and since operator set 19, an ulp apart: a quarter of the
averages of four stored integers lie halfway."""


@dataclass(frozen=True)
class Given:
    """The network as the user gave it. refusal: why ONNX Runtime does not take the very file, empty where it does; the first stage stands in then."""

    session: Session
    refusal: str = ""

    def run(self, sample: Tensors, place: str = "") -> dict[str, Array]:
        """Outputs by name, of one sample; a sequence of maps (ZipMap's) as the tensor of their values."""
        return {name: _values(found) for name, found in run_session(self.session, sample, place=place).items()}


def _values(found: Array | Sequence[Any] | None) -> Array:
    """found: as ONNX Runtime hands it out, None for an optional value that is not there."""
    if found is None or isinstance(found, np.ndarray) or not all(isinstance(each, dict) for each in found):
        return cast("Array", found)
    maps: Sequence[Mapping[Any, float]] = found
    return np.array([list(each.values()) for each in maps], np.float32)


def open_given(path: Path, imported: Path, place: str, optimise: bool = True, threads: int = THREADS) -> Given:
    """The file in ONNX Runtime. imported: the first stage. Raises UserError E0910 where ONNX Runtime takes neither."""
    try:
        return Given(open_session(path, optimise, place=place, threads=threads))
    except UserError as error:
        return Given(open_session(imported, optimise, place=place, threads=threads), error.diagnostics[0].message)


def is_quantised(model: ir.Model) -> bool:
    """Whether a model rounds its own tensors to stored integers."""
    return any(is_operator(node, "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear") for node in model.graph)


@dataclass(frozen=True)
class Imported:
    """The first stage, which every later float stage is held against.

    outputs: of the sample; None where there is no sample. store: has the weights.
    """

    model: ir.Model
    place: str
    sample: Tensors = field(default_factory=dict[str, Array])
    outputs: Tensors | None = None
    store: Store | None = None

    def check(self, stage: ir.Model, name: str, table: Table) -> None:
        """Holds a float stage against it: on the sample, and each operator that a pass wrote by itself. Raises UserError E0923, E0910."""
        if self.outputs is not None and not is_quantised(self.model):  # such a model's own rounding is taken out by a stage, openly
            check_sample(self.model, stage, self.sample, name, self.place, self.outputs, self.store)
        check_stage(self.model, stage, table, name, self.place, self.store)


def computes(wanted: Tensors, imported: ir.Model, stage: ir.Model, sample: Tensors, place: str, store: Store | None = None) -> bool:
    """Whether a float stage has the file's result on a sample, `wanted`, up to rounding.

    With every operator of the stage held against the import's, so does the import then, which needs not be run. False for models with stored integers
    of their own: their stages may differ by single steps.
    """
    if WRITTEN in imported.metadata_props or is_quantised(imported):
        return False
    return _first_noisy(stage.graph.outputs, wanted, _plain_outputs(stage, sample, place, store)) is None


def check_import(wanted: Tensors, imported: ir.Model, sample: Tensors, place: str, store: Store | None = None) -> Imported:
    """Raises UserError E0923 where the first stage's outputs are not those of the file, and E0910.

    wanted: those of the file, without ONNX Runtime's own rewriting.
    """
    found = _plain_outputs(imported, sample, place, store)
    written = WRITTEN in imported.metadata_props or is_quantised(imported)
    bad = _first_noisy(imported.graph.outputs, wanted, found, TIES if written else NOISE)
    if bad is not None and not (written and _within_steps(bad[0], wanted, found)):
        text = f"the imported model does not compute what the file does: the output '{bad[0].name}' differs by {bad[1]:.2g} of its energy"
        raise fail("E0923", text, place=place)
    return Imported(imported, place, sample, found, store)


def check_stage(imported: ir.Model, stage: ir.Model, table: Table, name: str, place: str, store: Store | None = None) -> None:
    """Raises UserError E0923 naming the first operator of a stage that computes otherwise than those of the import before it."""
    deviations = {tensor: seen.spread.deviation for tensor, seen in table.tensors.items()}
    found = find_mismatch(imported, stage, deviations, place, store)
    if found:
        raise fail("E0923", f"the stage '{name}' changes what the model computes: {found.text()}", place=place)


def check_sample(
    imported: ir.Model, stage: ir.Model, sample: Tensors, name: str, place: str, outputs: Tensors | None = None, store: Store | None = None
) -> None:
    """Raises UserError E0923 where a stage's outputs are not the import's on a sample, naming the first tensor that a new operator makes otherwise.

    outputs: the import's, where they are known. An operator that both have may enlarge a difference of rounding without end (the logistic function
    of a large number): that is no change.
    """
    wanted = outputs if outputs is not None else _plain_outputs(imported, sample, place, store)
    if _first_noisy(stage.graph.outputs, wanted, _plain_outputs(stage, sample, place, store)) is None:
        return
    old = {value.name: value for node in imported.graph for value in node.outputs}
    common = [value for node in stage.graph for value in node.outputs if value.name in old and known_shape(value) is not None]
    one = run_session(open_model(imported, [old[value.name] for value in common], place, optimise=False), sample, place=place)
    other = run_session(open_model(stage, common, place, optimise=False), sample, place=place)
    other = {name: array.reshape(one[name].shape) if same_but_ones(one[name].shape, array.shape) else array for name, array in other.items()}
    bad = _first_noisy(common, one, other)
    maker = None if bad is None else bad[0].producer()
    before = None if bad is None else old[bad[0].name].producer()
    if bad is not None and maker is not None and before is not None and not same_operator(before, maker):
        told = f"node '{maker.name}' ({maker.op_type}) makes '{bad[0].name}' differ by {bad[1]:.2g} of its energy"
        raise fail("E0923", f"the stage '{name}' changes what the model computes on a sample: {told}", place=place)


def _plain_outputs(model: ir.Model, sample: Tensors, place: str, store: Store | None) -> Tensors:
    """The outputs of one sample, without ONNX Runtime's own rewriting."""
    return run_session(open_model(model, place=place, optimise=False, store=store, threads=ONCE), sample, place=place)


def _first_noisy(values: Iterable[ir.Value], wanted: Tensors, found: Tensors, limit: float = NOISE) -> tuple[ir.Value, float] | None:
    """The first float tensor of fixed shape that differs by more than rounding, and by which share of its energy."""
    for value in values:
        name = value.name or ""
        if name in wanted and is_float(value) and known_shape(value) is not None and (share := noise_share(wanted[name], found[name])) > limit:
            return value, share
    return None


def _within_steps(value: ir.Value, wanted: Tensors, found: Tensors) -> bool:
    """Whether a tensor is so near zero that the difference is one of single steps of its own stored integers."""
    node = value.producer()
    scale = constant(node.inputs[1]) if node is not None and is_operator(node, "DequantizeLinear") else None
    one, other = wanted[value.name or ""], found[value.name or ""]
    return scale is not None and one.shape == other.shape and float(np.abs(one - other).max(initial=0.0)) <= 1.01 * float(scale.max())


def noise_share(wanted: Array, found: Array) -> float:
    """Energy of the difference over energy of the wanted result; infinite for another shape, or where one alone is not finite."""
    if wanted.shape != found.shape or not np.array_equal(np.isfinite(wanted), np.isfinite(found)):
        return float("inf")
    one, other = (array[np.isfinite(array)].astype(np.float64) for array in (wanted, found))
    noise, signal = float(((one - other) ** 2).sum()), float((one**2).sum())
    return noise / signal if signal else float(noise > 0)
