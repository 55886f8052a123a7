"""Pipelines as YAML: passes by name with their options; a pipeline that was read can be printed back."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

import yaml

from toolchain.passes.as_pictures import AsPictures
from toolchain.passes.context import Pass
from toolchain.passes.correct_bias import CorrectBias
from toolchain.passes.equalise import Equalise
from toolchain.passes.fold_batch_norm import FoldBatchNorm
from toolchain.passes.fold_constants import FoldConstants
from toolchain.passes.fuse import Fuse
from toolchain.passes.partition import Partition
from toolchain.passes.quantize import Quantize
from toolchain.passes.remove_qdq import MergeLimits, RemoveQdq
from toolchain.passes.simplify import MergePads, RemoveDead, RemoveIdentity
from toolchain.passes.split_recurrent import SplitRecurrent
from toolchain.spec.errors import Source, fail
from toolchain.spec.findings import gather
from toolchain.spec.model import Outline
from toolchain.spec.resources import PACKAGE
from toolchain.spec.schema import validate
from toolchain.spec.suggest import nearest
from toolchain.spec.yaml_nodes import Node, parse_yaml

ALL: tuple[type[Pass], ...] = (
    FoldConstants,
    RemoveIdentity,
    RemoveQdq,
    MergeLimits,
    SplitRecurrent,
    AsPictures,
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


def _option(kind: type[Pass], name: str, node: Node) -> tuple[str, Any]:
    reason, hint = _unfit(kind, name, node.plain())
    if reason:
        raise fail("E0912", reason, node.where() if hint else node.span, hint)
    return name, _typed(kind, name, node.plain())


def with_options(step: Pass, options: Mapping[str, Any], place: str) -> Pass:
    """The pass with some options changed. Raises UserError E0912."""
    for name, value in options.items():
        reason, hint = _unfit(type(step), name, value)
        if reason:
            raise fail("E0912", reason, hint=hint, place=place)
    return replace(step, **{name: _typed(type(step), name, value) for name, value in options.items()})


def _unfit(kind: type[Pass], name: str, value: Any) -> tuple[str, str]:
    """Why an option cannot have a value, and a hint; empty where it can: it has the type of its default, an integer will do for a real number."""
    known: dict[str, Any] = {field.name: field.default for field in fields(kind)}
    if name not in known:
        hint = nearest(name, known) or (f"known: {', '.join(known)}" if known else "this pass has none")
        return f"the pass '{kind.name}' has no option '{name}'", hint
    pair = type(known[name]).__name__, type(value).__name__
    if pair[0] == pair[1] or pair in (("float", "int"), ("tuple", "list")):
        return "", ""
    return f"the option '{name}' of '{kind.name}' must be like {_text(known[name])}, not {_text(value)}", ""


def _typed(kind: type[Pass], name: str, value: Any) -> Any:
    default = next(field.default for field in fields(kind) if field.name == name)
    if isinstance(default, float):
        return float(value)
    return tuple(value) if isinstance(value, list) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def print_pipeline(pipeline: Pipeline) -> str:
    """YAML that reads back as the same pipeline; options at their defaults are left out."""
    entries: list[Any] = []
    for step in pipeline.passes:
        options: dict[str, Any] = {f.name: getattr(step, f.name) for f in fields(step) if getattr(step, f.name) != f.default}
        plain: dict[str, Any] = {name: [*value] if type(value).__name__ == "tuple" else value for name, value in options.items()}
        entries.append({step.name: plain} if plain else step.name)
    return yaml.safe_dump({"pipeline": entries}, sort_keys=False, width=150)


def _text(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True).splitlines()[0]
