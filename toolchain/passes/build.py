"""The graph side in two calls: calibrate a model, and build it into integers with every stage kept.

Several machines share one graph: each takes its turn at the nodes that the machines before it left.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import onnx_ir as ir

from toolchain.graph.importing.load import load_graph
from toolchain.graph.integers.calls import note_refusals, reasons_of
from toolchain.graph.integers.functions import FUSED, is_integer
from toolchain.graph.nodes import REASON
from toolchain.graph.quantisation.table import Samples, SeenTensor, Table, calibrate, sample_at
from toolchain.graph.rewrite import keep_given_names
from toolchain.graph.session import ONCE
from toolchain.graph.store import Store
from toolchain.passes.context import Context, Pass
from toolchain.passes.fuse import ONLY
from toolchain.passes.leave import rejoin_activations, release_activations
from toolchain.passes.partition import Partition
from toolchain.passes.pipeline import Pipeline, read_pipeline, run_passes, run_steps
from toolchain.passes.remove_qdq import declares_ranges, qdq_table
from toolchain.passes.truth import Imported, check_import, computes, open_given
from toolchain.spec.errors import Source
from toolchain.spec.files import PACKAGE
from toolchain.spec.fingerprint import Memo, array_parts, digest_of_parts

CHECKED: Memo[None] = Memo(64)
"""Float stages that were held against their files: a process that builds one model for many machines needs each but once."""


@dataclass(frozen=True)
class Offer(Pass):
    """Stands between two machines' turns; a pipeline's own file never names it. A call that the user gives to one machine stays as it is, and so does
    every fused call where the next machine computes ONNX's own operators."""

    name: ClassVar[str] = "offer"
    requires: ClassVar[tuple[str, ...]] = ("quantized",)

    def run(self, model: ir.Model, context: Context) -> ir.Model:
        release_activations(model)
        rejoin_activations(model, context.kinds)
        keep_given_names(model.graph)
        asked, asking = context.before[-1].name, context.device.name if context.device else ""
        floats = context.device is not None and context.device.floats
        for node in model.graph:
            if is_integer(node) or REASON not in node.metadata_props:
                continue
            note_refusals(node, {asked: reasons_of(node)})
            if node.domain != FUSED or (not floats and node.metadata_props.get(ONLY, asking) == asking):
                del node.metadata_props[REASON]
        return model


@dataclass(frozen=True)
class Turn:
    """passes: of one machine, in order. context: with that machine's numerics, templates and device."""

    passes: tuple[Pass, ...]
    context: Context


def steps_of(turns: Sequence[Turn]) -> tuple[tuple[Pass, Context], ...]:
    """Every pass of every turn with its context.

    The first turn has all passes; a further one begins with Offer and has its own from the first that is not of floating point. Regions are made
    last, of all machines at once.
    """
    found: list[tuple[Pass, Context]] = []
    for number, turn in enumerate(turns):
        before = tuple(earlier.context.device for earlier in turns[:number] if earlier.context.device)
        context = replace(turn.context, before=before, further=number < len(turns) - 1)
        passes = (Offer(), *turn.passes[len(float_passes(turn.passes)) :]) if number else turn.passes
        last = number == len(turns) - 1
        found += [(step, context) for step in passes if last or not isinstance(step, Partition)]
    return tuple(found)


def float_passes(passes: Sequence[Pass]) -> Sequence[Pass]:
    """Passes before the first that needs a calibration table, hides tensors from it, or makes regions."""
    names = [step.name for step in passes]
    ends = [names.index(name) for name in ("fuse", "quantize", "partition") if name in names]
    return passes[: min(ends, default=len(names))]


DEFAULT = PACKAGE / "passes" / "pipeline.yaml"


def default_pipeline() -> Pipeline:
    """The one that comes with the toolchain."""
    return read_pipeline(Source(str(DEFAULT), DEFAULT.read_text()))


def calibration_table(path: Path, dims: Mapping[str, int], samples: Samples, pipeline: Pipeline | None = None) -> Table:
    """Calibrates the float network on `samples` ([count, ...] by input). Raises UserError E09xx."""
    steps = pipeline or default_pipeline()
    return calibrate(run_passes(load_graph(path, dims), float_passes(steps.passes), Context(str(path))), samples, str(path))


def declared_table(path: Path, dims: Mapping[str, int], pipeline: Pipeline | None = None) -> Table | None:
    """The ranges of a model that is quantised already (QDQ), None for any other. Raises UserError E09xx."""
    steps = pipeline or default_pipeline()
    model = run_passes(load_graph(path, dims), float_passes(steps.passes), Context(str(path)))
    return qdq_table(model) if declares_ranges(model) else None


def united_table(seen: Table, declared: Table) -> Table:
    """A quantised model's own ranges, and of its other tensors those of made-up samples."""
    means = {name: seen.tensors[name].means if name in seen.tensors else () for name in declared.tensors}
    ranges = {name: SeenTensor(found.spread, means[name]) for name, found in declared.tensors.items()}
    unusable = tuple(name for name in seen.unusable if name not in ranges)
    return Table(0 if seen.failure else seen.samples, {**seen.tensors, **ranges}, unusable)


def build_graph(path: Path, dims: Mapping[str, int], context: Context, store: Store, pipeline: Pipeline | None = None) -> ir.Model:
    """As `build_turns`, for one machine."""
    return build_turns(path, dims, [Turn((pipeline or default_pipeline()).passes, context)], store)


def build_turns(path: Path, dims: Mapping[str, int], turns: Sequence[Turn], store: Store) -> ir.Model:
    """Runs all passes of all machines; stage NN-PASS.onnx of each is in the store's folder, 00-import.onnx first.

    The last float stage is held against the file: its outputs on the first sample of the context, if there is one, and every operator that a
    pass wrote. Raises UserError E09xx.
    """
    model = load_graph(path, dims)
    imported = store.save("00-import", model)
    original, last, context = model.clone(), float_stages(turns[0].passes), turns[0].context

    def keep(number: int, name: str, left: ir.Model) -> None:
        stage = store.save(stage_name(number, name), left)
        if number == last:
            known = _check_key(path, imported, stage, context, store)
            CHECKED.of(known, lambda: check_floats(path, imported, original, left, context, stage_name(number, name), store))

    return run_steps(model, steps_of(turns), keep)


def _check_key(path: Path, imported: Path, stage: Path, context: Context, store: Store) -> str:
    """A digest of all that `check_floats` reads; empty where the model's file is none of the build's own, whose hashes are known. Stages name their
    weights by content."""
    if path.absolute() not in store.lent or context.table is None:
        return ""
    sample = sample_at(context.samples, 0) if context.samples else {}
    deviations = [(name, seen.spread.deviation) for name, seen in sorted(context.table.tensors.items())]
    given = [(str(lent), digest) for lent, digest in sorted(store.lent.items())]
    texts = repr((str(path.absolute()), stage.name, given, deviations)).encode(errors="surrogateescape")
    return digest_of_parts([texts, imported.read_bytes(), stage.read_bytes(), *array_parts(sample)])


def stage_name(number: int, name: str) -> str:
    """The name of the stage after the pass with this number, the import before them being 00."""
    return f"{number + 1:02}-{name}"


def float_stages(steps: Sequence[Pass]) -> int:
    """The number of the last pass before the first that quantises; -1 where that is the first of all."""
    names = [step.name for step in steps]
    return (names.index("quantize") if "quantize" in names else len(names)) - 1


def check_floats(path: Path, imported: Path, original: ir.Model, model: ir.Model, context: Context, name: str, store: Store) -> None:
    """Raises UserError E0923 where a float stage has another result than the file."""
    place, found = context.place, Imported(original, context.place, store=store)
    if context.samples:
        sample = sample_at(context.samples, 0)
        wanted = open_given(path, imported, place, optimise=False, threads=ONCE).run(sample, place)  # one network's weights in memory at a time
        if not computes(wanted, original, model, sample, place, store):
            found = check_import(wanted, original, sample, place, store)
    found.check(model, name, context.table or Table(0, {}))
