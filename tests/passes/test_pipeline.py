"""Pipelines: what is printed reads back; what is wrong has a place; contracts hold or name the culprit.

Passes one after the other: what one needs or promises is checked, and an error says in which it happened.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.imported import F, imported, normal
from tests.graph.onnx_builder import conv_net, n, save
from tests.reasons import because
from tests.spec.small import GOOD
from toolchain.graph.importing.load import load_graph
from toolchain.graph.integers.calls import note_reasons
from toolchain.graph.integers.functions import FUSED
from toolchain.graph.regions import REGION
from toolchain.graph.rewrite import is_operator
from toolchain.passes.context import Context, Pass
from toolchain.passes.fold import FoldBatchNorm
from toolchain.passes.fuse import Fuse
from toolchain.passes.pipeline import PASSES, PROPERTIES, Pipeline, pipeline_of, print_pipeline, read_pipeline, run_passes
from toolchain.passes.simplify import RemoveDead, RemoveIdentity
from toolchain.passes.templates import templates_of
from toolchain.spec.errors import Source, UserError, fail
from toolchain.spec.load import load_text


def _option(default: Any) -> st.SearchStrategy[Any]:
    kinds: dict[type, st.SearchStrategy[Any]] = {
        bool: st.booleans(),
        int: st.integers(-(2**40), 2**40),
        float: st.floats(allow_nan=False, allow_infinity=False),
        str: st.text("abcdefgh_ 0123", max_size=12),
        tuple: st.lists(st.sampled_from(["a", "no", "x.y"]), max_size=3).map(tuple),
    }
    return kinds[type(default)]


def _pass(kind: type[Pass]) -> st.SearchStrategy[Pass]:
    return st.builds(kind, **{field.name: _option(field.default) for field in fields(kind)})


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(sorted(PASSES)).flatmap(lambda name: _pass(PASSES[name])), min_size=1, max_size=6))
def test_a_printed_pipeline_reads_back(passes: list[Pass]) -> None:
    pipeline = Pipeline(tuple(passes))
    assert read_pipeline(Source("p.yaml", print_pipeline(pipeline))) == pipeline


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pipeline: [fold_constant]", "p.yaml:1:12: E0911 unknown pass 'fold_constant'; did you mean 'fold_constants'?"),
        ("pipeline:\n  - quantize: {strct: true}", "p.yaml:2:16: E0912 the pass 'quantize' has no option 'strct'; did you mean 'strict'?"),
        ("pipeline:\n  - quantize: {strict: 1}", "p.yaml:2:24: E0912 the option 'strict' of 'quantize' must be like false, not 1"),
        ("pipeline:\n  - remove_dead: {all: true}", "p.yaml:2:19: E0912 the pass 'remove_dead' has no option 'all'; this pass has none"),
        ("pipeline: []", "E0116"),
        ("pipelin: [a]", "E0108"),
        ("pipeline: [3]", "E0116"),
    ],
)
def test_what_is_wrong_has_a_place(text: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        read_pipeline(Source("p.yaml", text))
    assert words in str(caught.value)


def test_every_property_named_by_a_pass_is_checked_by_code() -> None:
    assert {name for kind in PASSES.values() for name in (*kind.requires, *kind.ensures)} <= set(PROPERTIES)


def test_unmet_requirement_names_the_pass_the_node_and_the_helper(tmp_path: Path) -> None:
    model = load_graph(save(conv_net(), tmp_path), {"batch": 1})
    model.graph.insert_before(model.graph[0], ir.node("Constant", [], {"value": ir.tensor([1.0])}, name="c"))
    model.graph[0].outputs[0].shape, model.graph[0].outputs[0].type = ir.Shape([1]), ir.TensorType(ir.DataType.FLOAT)
    with pytest.raises(UserError) as caught:
        run_passes(model, [RemoveIdentity(), FoldBatchNorm()], Context("net.onnx"))
    text = str(caught.value)
    assert text.startswith("net.onnx: E0913 the pass 'fold_batch_norm' needs 'no_constant_nodes', but node 'c' (Constant)")
    assert "passes before it: remove_identity" in text
    assert "fold_constants ensure" in text


@dataclass(frozen=True)
class Careless(Pass):
    name: ClassVar[str] = "careless"
    ensures: ClassVar[tuple[str, ...]] = ("no_identity",)

    def run(self, model: ir.Model, context: Context) -> ir.Model:  # noqa: ARG002
        return model


@dataclass(frozen=True)
class Failing(Pass):
    name: ClassVar[str] = "failing"

    def run(self, model: ir.Model, context: Context) -> ir.Model:  # noqa: ARG002
        raise fail("E0910", "it broke", place=context.place)


def test_a_broken_promise_and_a_failing_pass_are_named(tmp_path: Path) -> None:
    model = load_graph(save(conv_net(), tmp_path), {"batch": 1})
    with pytest.raises(UserError, match=r"'careless' promises 'no_identity', but node 'identity1'.*passes before it: remove_dead"):
        run_passes(model, [RemoveDead(), Careless()], Context())
    with pytest.raises(UserError, match=r"it broke \(in the pass 'failing'; passes before it: remove_dead\)"):
        run_passes(model, [RemoveDead(), Failing()], Context())


def test_identity_is_gone_after_its_pass(tmp_path: Path) -> None:
    model = run_passes(load_graph(save(conv_net(), tmp_path), {"batch": 1}), [RemoveIdentity()], Context())
    assert not any(is_operator(node, "Identity", "Dropout") for node in model.graph)


SECTIONS = """pipeline:
  - fold_constants
  - fuse: {keep: [add]}
fusion:
  - {name: sum, computes: add, pattern: {op: Add, inputs: [x, z]}}
"""


def test_a_machine_brings_its_own_passes_and_templates() -> None:
    machine = load_text(GOOD + SECTIONS, "m.yaml")
    assert machine.pipeline is not None
    assert machine.fusion is not None
    assert pipeline_of(machine.pipeline) == Pipeline((PASSES["fold_constants"](), Fuse(keep=("add",))))
    assert [template.computes for template in templates_of(machine.fusion)] == ["add"]


@pytest.mark.parametrize(
    ("before", "after", "line", "words"),
    [
        ("fold_constants", "fold_constant", 2, "E0911 unknown pass 'fold_constant'; did you mean 'fold_constants'?"),
        ("keep:", "kept:", 3, "E0912 the pass 'fuse' has no option 'kept'"),
        ("computes: add", "computes: sum", 5, "E0107 unknown kind of operation 'sum'"),
        ("pattern: {op: Add", "pattern: {opp: Add", 5, "E0108 unknown key 'opp'"),
    ],
)
def test_what_is_wrong_in_a_machine_has_its_place_in_the_machine(before: str, after: str, line: int, words: str) -> None:
    machine = load_text(GOOD + SECTIONS.replace(before, after), "m.yaml")
    assert machine.pipeline is not None
    assert machine.fusion is not None
    with pytest.raises(UserError) as caught:
        (pipeline_of(machine.pipeline), templates_of(machine.fusion))
    assert words in str(caught.value)
    assert f"m.yaml:{GOOD.count(chr(10)) + line}:" in str(caught.value)


VECTORS = {name: normal(k, 3) ** 2 + F(1) for k, name in enumerate("stmv")} | {"w": normal(9, 3, 3, 1, 1)}


def graph_of(folder: Path, *nodes: object) -> ir.Model:
    return imported(folder, list(nodes), constants=VECTORS)  # type: ignore[arg-type]


def marked(model: ir.Model, reason: str) -> ir.Model:
    for node in model.graph:
        note_reasons(node, because(reason))
    return model


def constant_inside(folder: Path) -> ir.Model:
    model = graph_of(folder, n("Relu", ["x"], ["y"], "r"))
    model.graph.insert_before(next(iter(model.graph)), ir.node("Constant", [], {"value_float": 1.0}, num_outputs=1, name="c"))
    return model


def fused_inside(folder: Path) -> ir.Model:
    model = graph_of(folder, n("Relu", ["x"], ["y"], "r"))
    model.graph.insert_before(next(iter(model.graph)), ir.node("conv2d", [], domain=FUSED, num_outputs=1, name="c"))
    return model


def region_inside(folder: Path) -> ir.Model:
    model = marked(graph_of(folder, n("Relu", ["x"], ["y"], "r")), "because")
    model.graph.insert_before(next(iter(model.graph)), ir.node("region0", [], domain=REGION, num_outputs=1, name="c"))
    return model


NORM = n("BatchNormalization", ["a", *"stmv"], ["y"], "norm")
BROKEN = {
    "no_constant_nodes": (constant_inside, "node 'c' (Constant) is a constant"),
    "no_batch_norm": (lambda folder: graph_of(folder, n("Conv", ["x", "w"], ["a"]), NORM), "node 'norm' (BatchNormalization) is left"),
    "no_identity": (
        lambda folder: graph_of(folder, n("Identity", ["x"], ["a"], "i"), n("Relu", ["a"], ["y"])),
        "node 'i' (Identity) changes nothing",
    ),
    "no_dead_nodes": (lambda folder: graph_of(folder, n("Exp", ["x"], ["a"], "e"), n("Relu", ["x"], ["y"])), "node 'e' (Exp) is read by nobody"),
    "fused": (lambda folder: graph_of(folder, n("Relu", ["x"], ["y"], "r")), "node 'r' (Relu) was not looked at"),
    "quantized": (fused_inside, "node 'c' (conv2d) is still in floating point and does not say why"),
    "partitioned": (fused_inside, "node 'c' (conv2d) does not say where it runs"),
}
KEPT = {
    "no_constant_nodes": lambda folder: graph_of(folder, n("Relu", ["x"], ["y"])),
    "no_batch_norm": lambda folder: graph_of(folder, n("Relu", ["x"], ["a"]), NORM),
    "no_identity": lambda folder: graph_of(folder, n("Relu", ["x"], ["y"])),
    "no_dead_nodes": lambda folder: graph_of(folder, n("Relu", ["x"], ["y"])),
    "fused": lambda folder: marked(graph_of(folder, n("Relu", ["x"], ["y"])), "because"),
    "quantized": lambda folder: marked(fused_inside(folder), "because"),
    "partitioned": region_inside,
}


def test_there_is_a_case_for_every_property_and_every_word_of_a_pass_is_one() -> None:
    assert set(BROKEN) == set(KEPT) == set(PROPERTIES)
    assert {name for kind in PASSES.values() for name in (*kind.requires, *kind.ensures)} <= set(PROPERTIES)


@pytest.mark.parametrize("name", BROKEN)
def test_a_property_that_does_not_hold(name: str, tmp_path: Path) -> None:
    make, words = BROKEN[name]
    assert PROPERTIES[name](make(tmp_path)) == words


@pytest.mark.parametrize("name", KEPT)
def test_a_property_that_holds(name: str, tmp_path: Path) -> None:
    assert PROPERTIES[name](KEPT[name](tmp_path)) == ""


@dataclass(frozen=True)
class Promises(Pass):
    """And does nothing."""

    name: ClassVar[str] = "promises"
    ensures: ClassVar[tuple[str, ...]] = ("no_identity",)

    def run(self, model: ir.Model, context: Context) -> ir.Model:  # noqa: ARG002
        return model


@dataclass(frozen=True)
class Raises(Pass):
    name: ClassVar[str] = "raises"

    def run(self, model: ir.Model, context: Context) -> ir.Model:  # noqa: ARG002
        raise fail("E0919", "this went wrong", hint="turn it", place="net.onnx")


def network(folder: Path) -> ir.Model:
    return imported(folder, [n("Identity", ["x"], ["a"], "same"), n("Relu", ["a"], ["y"], "relu")])


def test_every_stage_is_kept_in_order(tmp_path: Path) -> None:
    kept: list[tuple[int, str, int]] = []
    run_passes(
        network(tmp_path), [RemoveIdentity(), RemoveDead()], Context(), lambda number, name, model: kept.append((number, name, len(model.graph)))
    )
    assert kept == [(0, "remove_identity", 1), (1, "remove_dead", 1)]


def test_a_promise_that_is_not_kept(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^net.onnx: E0913 the pass 'promises' promises 'no_identity', but node 'same' \(Identity\) changes nothing"):
        run_passes(network(tmp_path), [Promises()], Context("net.onnx"))


def test_a_need_that_is_not_met_names_who_could_meet_it(tmp_path: Path) -> None:
    model = imported(tmp_path, [n("Add", ["x", "k"], ["y"])], constants={"k": F(1)})
    model.graph.insert_before(next(iter(model.graph)), ir.node("Constant", [], {"value_float": 1.0}, num_outputs=1, name="c"))
    with pytest.raises(UserError) as caught:
        run_passes(model, [RemoveIdentity(), FoldBatchNorm()], Context())
    assert str(caught.value) == (
        "E0913 the pass 'fold_batch_norm' needs 'no_constant_nodes', but node 'c' (Constant) is a constant; passes before it: remove_identity; "
        "'no_constant_nodes' is what fold_constants ensure"
    )


def test_an_error_tells_the_pass_and_keeps_the_rest(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        run_passes(network(tmp_path), [RemoveIdentity(), Raises()], Context())
    (told,) = caught.value.diagnostics
    assert told.message == "this went wrong (in the pass 'raises'; passes before it: remove_identity)"
    assert (told.code, told.hint, told.place) == ("E0919", "turn it", "net.onnx")
