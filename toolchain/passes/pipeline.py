"""Pipelines as YAML, passes by name with their options; they can be printed back.

Passes run one after the other; the named properties that each requires and ensures are checked, and every stage is kept.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

import onnx_ir as ir
import yaml

from toolchain.graph.integers.calls import is_candidate
from toolchain.graph.integers.functions import FUSED, is_integer
from toolchain.graph.nodes import REASON
from toolchain.graph.operators import affine_of
from toolchain.graph.regions import REGION
from toolchain.graph.rewrite import is_operator
from toolchain.passes.as_pictures import AsPictures
from toolchain.passes.context import Context, Pass
from toolchain.passes.equalise import CorrectBias, Equalise
from toolchain.passes.fold import FoldBatchNorm, FoldConstants, foldable, kept_constant
from toolchain.passes.fuse import Fuse
from toolchain.passes.join_recurrent import SplitRecurrent
from toolchain.passes.lay_out_attention import LayOutAttention
from toolchain.passes.partition import Partition
from toolchain.passes.quantize import Quantize
from toolchain.passes.remove_qdq import MergeLimits, RemoveQdq
from toolchain.passes.simplify import MergePads, RemoveDead, RemoveIdentity, passes_through
from toolchain.spec.errors import Diagnostic, Source, UserError, fail, nearest
from toolchain.spec.files import PACKAGE
from toolchain.spec.model import Outline
from toolchain.spec.schema import validate
from toolchain.spec.yaml_nodes import Node, gather, parse_yaml

ALL: tuple[type[Pass], ...] = (
    FoldConstants,
    RemoveIdentity,
    RemoveQdq,
    MergeLimits,
    SplitRecurrent,
    AsPictures,
    LayOutAttention,
    MergePads,
    FoldBatchNorm,
    Equalise,
    RemoveDead,
    Fuse,
    Quantize,
    CorrectBias,
    Partition,
)
PASSES: Mapping[str, type[Pass]] = MappingProxyType({kind.name: kind for kind in ALL})


SCHEMA = PACKAGE / "schemas" / "pipeline.schema.json"


@dataclass(frozen=True)
class Pipeline:
    """Passes in the order in which they run."""

    passes: tuple[Pass, ...]


def read_pipeline(source: Source) -> Pipeline:
    """A file with the one key `pipeline`. Raises UserError E0101 to E0116 (YAML, schema), E0911 (unknown pass), E0912 (wrong option)."""
    root = parse_yaml(source)
    validate(root, SCHEMA)
    return Pipeline(passes_of(root.entries("pipeline")))


def pipeline_of(section: Outline) -> Pipeline:
    """A machine's section `pipeline`. Raises as `read_pipeline`."""
    validate(Node({"pipeline": section.node}, section.node.span, ()), SCHEMA)
    return Pipeline(passes_of(section.node.children()))


def passes_of(entries: list[Node]) -> tuple[Pass, ...]:
    """The passes of a list whose entries are a name, or a name with its options."""
    return tuple(gather(_pass, entries))


def _pass(entry: Node) -> Pass:
    if isinstance(entry.value, dict):
        name, options = next(iter(entry.items()))
        span = options.where()
    else:
        name, options, span = str(entry.value), None, entry.span
    if name not in PASSES:
        raise fail("E0911", f"unknown pass '{name}'", span, nearest(name, PASSES) or f"known: {', '.join(sorted(PASSES))}")
    kind = PASSES[name]
    return kind(**dict(gather(lambda item: _option(kind, *item), options.items()) if options and options.value else ()))


def _option(kind: type[Pass], name: str, node: Node) -> tuple[str, object]:
    reason, hint = _unfit(kind, name, node.plain())
    if reason:
        raise fail("E0912", reason, node.where() if hint else node.span, hint)
    return name, _typed(kind, name, node.plain())


def with_options(step: Pass, options: Mapping[str, object], place: str) -> Pass:
    """The pass with some options changed. Raises UserError E0912."""
    for name, value in options.items():
        reason, hint = _unfit(type(step), name, value)
        if reason:
            raise fail("E0912", reason, hint=hint, place=place)
    return replace(step, **{name: _typed(type(step), name, value) for name, value in options.items()})


def _unfit(kind: type[Pass], name: str, value: object) -> tuple[str, str]:
    """Why an option cannot have a value, and a hint; empty where it can: it has the type of its default, an integer will do for a real number."""
    known: dict[str, object] = {field.name: field.default for field in fields(kind)}
    if name not in known:
        hint = nearest(name, known) or (f"known: {', '.join(known)}" if known else "this pass has none")
        return f"the pass '{kind.name}' has no option '{name}'", hint
    pair = type(known[name]).__name__, type(value).__name__
    if pair[0] == pair[1] or pair in (("float", "int"), ("tuple", "list")):
        return "", ""
    return f"the option '{name}' of '{kind.name}' must be like {_text(known[name])}, not {_text(value)}", ""


def _typed(kind: type[Pass], name: str, value: object) -> object:
    default = next(field.default for field in fields(kind) if field.name == name)
    if isinstance(default, float) and isinstance(value, int | float):
        return float(value)
    return tuple(value) if isinstance(value, list) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def print_pipeline(pipeline: Pipeline) -> str:
    """YAML that reads back as the same pipeline; options at their defaults are left out."""
    entries: list[object] = []
    for step in pipeline.passes:
        options: dict[str, Any] = {f.name: getattr(step, f.name) for f in fields(step) if getattr(step, f.name) != f.default}
        plain: dict[str, object] = {name: [*value] if type(value).__name__ == "tuple" else value for name, value in options.items()}
        entries.append({step.name: plain} if plain else step.name)
    return yaml.safe_dump({"pipeline": entries}, sort_keys=False, width=150)


def _text(value: object) -> str:
    return yaml.safe_dump(value, default_flow_style=True).splitlines()[0]


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

    makers = sorted(other.name for other in PASSES.values() if name in other.ensures and other.name != step.name)
    return f"'{name}' is what {' and '.join(makers)} ensure" if makers else ""


def _history(done: Sequence[str]) -> str:
    return f"passes before it: {', '.join(done)}" if done else "no pass ran before it"


def _explained(error: UserError, step: Pass, done: Sequence[str]) -> UserError:
    """The diagnostics, each naming the pass that raised it."""
    note = f" (in the pass '{step.name}'; {_history(done)})"
    return UserError(*(Diagnostic(d.code, d.message + note, d.span, d.hint, d.place, d.severity) for d in error.diagnostics))
