"""Runs passes one after the other, checks the named properties that each requires and ensures, and keeps every stage."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import onnx_ir as ir

from toolchain.graph.integers.calls import REASON, is_candidate
from toolchain.graph.integers.functions import FUSED, is_integer
from toolchain.graph.operators import affine_of
from toolchain.graph.regions import REGION
from toolchain.graph.rewrite import is_operator
from toolchain.passes.context import Context, Pass
from toolchain.passes.fold_batch_norm import foldable
from toolchain.passes.fold_constants import kept_constant
from toolchain.passes.simplify import passes_through
from toolchain.spec.errors import Diagnostic, UserError, fail

Check = Callable[[ir.Model], str]
"""Answers with the fault, or with an empty string."""


def _first(nodes: Iterable[ir.Node], sentence: str) -> str:
    node = next(iter(nodes), None)
    return "" if node is None else f"node '{node.name}' ({node.op_type}) {sentence}"


def _no_constant_nodes(model: ir.Model) -> str:
    constants = (node for node in model.graph if is_operator(node, "Constant") and not kept_constant(node))
    return _first(constants, "is a constant")


def _no_batch_norm(model: ir.Model) -> str:
    """None that a layer before it could take in."""
    left = (node for node in model.graph if is_operator(node, "BatchNormalization") and (found := affine_of(node)) is not None and foldable(found[0]))
    return _first(left, "is left")


def _no_identity(model: ir.Model) -> str:
    return _first((node for node in model.graph if passes_through(node) and not node.outputs[0].is_graph_output()), "changes nothing")


def _no_dead_nodes(model: ir.Model) -> str:
    unused = (node for node in model.graph if not any(value.uses() or value.is_graph_output() for value in node.outputs))
    return _first(unused, "is read by nobody")


def _fused(model: ir.Model) -> str:
    """Every node is a call of a fused operation, of integers already, or says why it is none."""
    seen = (node for node in model.graph if node.domain != FUSED and not is_integer(node) and REASON not in node.metadata_props)
    return _first(seen, "was not looked at")


def _quantized(model: ir.Model) -> str:
    return _first((node for node in model.graph if is_candidate(node)), "is still in floating point and does not say why")


def _partitioned(model: ir.Model) -> str:
    """Every node is a call of a region or says why it stays on the host."""
    return _first((node for node in model.graph if node.domain != REGION and REASON not in node.metadata_props), "does not say where it runs")


PROPERTIES: Mapping[str, Check] = MappingProxyType(
    {
        "no_constant_nodes": _no_constant_nodes,
        "no_batch_norm": _no_batch_norm,
        "no_identity": _no_identity,
        "no_dead_nodes": _no_dead_nodes,
        "fused": _fused,
        "quantized": _quantized,
        "partitioned": _partitioned,
    }
)


Keep = Callable[[int, str, ir.Model], object]
"""Called with the number of the stage, the name of its pass and the model it left."""


def run_passes(model: ir.Model, passes: Sequence[Pass], context: Context, keep: Keep | None = None) -> ir.Model:
    """As `run_steps`, all passes with one context."""
    return run_steps(model, [(step, context) for step in passes], keep)


def run_steps(model: ir.Model, steps: Sequence[tuple[Pass, Context]], keep: Keep | None = None) -> ir.Model:
    """The model after all passes. Raises UserError E0913 (contract not met) and whatever a pass raises, with the passes before it named."""
    done: list[str] = []
    for number, (step, context) in enumerate(steps):
        context.say(f"pass {number + 1} of {len(steps)}, {step.name}")
        _check(step, step.requires, model, "needs", done, context)
        try:
            model = step.run(model, context)
        except UserError as error:
            raise _explained(error, step, done) from error
        _check(step, step.ensures, model, "promises", done, context)
        done.append(step.name)
        if keep:
            keep(number, step.name, model)
    return model


def _check(step: Pass, properties: Sequence[str], model: ir.Model, verb: str, done: Sequence[str], context: Context) -> None:
    for name in properties:
        reason = PROPERTIES[name](model)
        if reason:
            text = f"the pass '{step.name}' {verb} '{name}', but {reason}; {_history(done)}"
            raise fail("E0913", text, hint=_helper(name, step) if verb == "needs" else "", place=context.place)


def _helper(name: str, step: Pass) -> str:
    from toolchain.passes.pipeline import PASSES

    makers = sorted(other.name for other in PASSES.values() if name in other.ensures and other.name != step.name)
    return f"'{name}' is what {' and '.join(makers)} ensure" if makers else ""


def _history(done: Sequence[str]) -> str:
    return f"passes before it: {', '.join(done)}" if done else "no pass ran before it"


def _explained(error: UserError, step: Pass, done: Sequence[str]) -> UserError:
    """The diagnostics, each naming the pass that raised it."""
    note = f" (in the pass '{step.name}'; {_history(done)})"
    return UserError(*(Diagnostic(d.code, d.message + note, d.span, d.hint, d.place, d.severity) for d in error.diagnostics))
