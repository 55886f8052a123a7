"""The passes of several machines in one graph: each takes its turn at the nodes that the machines before it left."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import onnx_ir as ir

from toolchain.graph.integers.calls import REASON, note_refusals, reasons_of
from toolchain.graph.integers.functions import FUSED, is_integer
from toolchain.graph.rewrite import keep_given_names
from toolchain.passes.context import Context, Pass
from toolchain.passes.fuse import ONLY
from toolchain.passes.leave import rejoin_activations, release_activations
from toolchain.passes.partition import Partition


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
