"""Graphs in float16: the same border, rounded constants where an operator computes with them, and results as ONNX's evaluator has them. A
region as JSON: every operator, attribute and constant, the same text each time.

A vendor's compiler: only one that the user names is started, and every way in which it fails is one error with its last words.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tests.graph_networks import engine, regions, samples
from toolchain.codegen.generators import GENERATORS
from toolchain.codegen.graphs import VARIABLE, graph_cycles, graph_text, half_region, run_compiler, tool_path
from toolchain.graph.regions import GraphRegion, GraphTensor, onnx_of
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine, Tool


def test_the_border_stays_and_what_is_between_is_half() -> None:
    first, _ = regions()
    made = half_region(first)
    assert (made.inputs, made.outputs) == (first.inputs, first.outputs)
    operators = [node.op_type for node in first.nodes]
    assert [node.op_type for node in made.nodes] == [*["Cast"] * len(first.inputs), *operators, *["Cast"] * len(first.outputs)]
    weights = [name for name, array in first.constants.items() if array.dtype == np.float32]
    assert all(made.constants[f"{name}.half"].dtype == np.float16 for name in weights)
    assert not any(name in made.constants for name in weights)
    assert all(made.constants[name] is array for name, array in first.constants.items() if array.dtype == np.int64)


def test_the_model_is_valid_and_near() -> None:
    first, _ = regions()
    whole, half = onnx_of(first), onnx_of(half_region(first))
    onnx.checker.check_model(half, full_check=True)
    given = {"x": samples(1)[0]}
    expected, found = (ReferenceEvaluator(model).run(None, given) for model in (whole, half))
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == np.float32
        assert np.allclose(one, other, rtol=0.02, atol=0.005)
        assert not np.array_equal(one, other)


def test_factors_of_a_resize_stay_float32() -> None:
    x, y = GraphTensor("x", (1, 2, 4, 4), "float32"), GraphTensor("y", (1, 2, 8, 8), "float32")
    constants = {"roi": np.zeros(0, np.float32), "scales": np.array([1, 1, 2, 2], np.float32)}
    proto = helper.make_node("Resize", ["x", "roi", "scales"], ["y"], "up", mode="nearest")
    made = half_region(GraphRegion("region0", (x,), (y,), (ir.serde.deserialize_node(proto),), constants, 18))
    assert [value.name for value in made.nodes[1].inputs if value] == ["x.half", "roi", "scales"]
    assert made.constants == constants
    onnx.checker.check_model(onnx_of(made), full_check=True)


def test_a_constant_of_two_uses_is_there_twice() -> None:
    x, y = GraphTensor("x", (1, 1, 4, 4), "float32"), GraphTensor("y", (1, 1, 4, 4), "float32")
    nodes = (helper.make_node("Add", ["x", "c"], ["a"], "add"), helper.make_node("Resize", ["a", "", "c"], ["y"], "up", mode="nearest"))
    region = GraphRegion("r", (x,), (y,), tuple(map(ir.serde.deserialize_node, nodes)), {"c": np.ones(4, np.float32)}, 18)
    made = half_region(region)
    assert {name: array.dtype.name for name, array in made.constants.items()} == {"c": "float32", "c.half": "float16"}
    assert half_region(replace(region, constants={**region.constants, "spare": np.ones(1, np.float32)})).constants.keys() == made.constants.keys()


def test_a_machine_in_half_precision_says_how_far_it_is_off(tmp_path: Path) -> None:
    assert load_machine("graphengine").allowance is None
    machine = load_machine("graphengine:fp16")
    assert machine.half
    assert machine.allowance is not None
    assert machine.timing.peak_macs == 2 * (load_machine("graphengine").timing.peak_macs or 0)
    path = tmp_path / "e.yaml"
    path.write_text("target: {name: e, summary: s}\ncodegen: json\nhalf: 1\ntiming: {clock_khz: {value: 1, source: s}}\noperators: {Relu: []}\n")
    with pytest.raises(UserError, match="E0109 missing key 'tolerance'"):
        load_machine(str(path))


def test_the_graph_is_json_with_all_that_it_needs() -> None:
    first, _ = regions()
    code = GENERATORS["json"].generate(engine(), first)
    assert code == GENERATORS["json"].generate(engine(), first)
    held = json.loads(code.blob)
    assert [node["operator"] for node in held["nodes"]] == ["Conv", "Clip", "LeakyRelu", "Reshape"]
    assert held["nodes"][0]["attributes"]["strides"] == {"ints": [2, 2]}
    assert np.float32(held["nodes"][2]["attributes"]["alpha"]["float"]) == np.float32(0.1)
    assert held["inputs"] == [{"name": "x", "shape": [2, 3, 8, 8], "dtype": "float32"}]
    for entry in held["constants"]:
        array, offset = first.constants[entry["name"]], entry["offset"]
        assert offset % 64 == 0
        assert code.constants["constants"][offset : offset + array.nbytes] == array.tobytes()
    assert code.cycles == graph_cycles(engine(), first) > 0
    assert code.map.tensors["x"].bytes == 4 * 2 * 3 * 8 * 8


def test_equal_constants_stand_once() -> None:
    first, _ = regions()
    twice = replace(first, constants={**first.constants, "copy": first.constants["w"]})
    held = json.loads(GENERATORS["json"].generate(engine(), twice).blob)
    places = {entry["name"]: entry["offset"] for entry in held["constants"]}
    assert places["copy"] == places["w"]


def test_strange_names_stay_json() -> None:
    first, _ = regions()
    odd = replace(first, name='a"b\n{{ evil }}')
    assert json.loads(graph_text(odd, dict.fromkeys(first.constants, 0)))["name"] == odd.name


def test_an_attribute_that_json_does_not_hold() -> None:
    first, _ = regions()
    strange = ir.Node("", "Relu", [], [ir.AttrTensor("value", ir.tensor(np.zeros(1)))], name="strange")
    with pytest.raises(UserError, match="E1010 attribute 'value' of 'strange' is a tensor"):
        graph_text(replace(first, nodes=(strange,)), dict.fromkeys(first.constants, 0))


FILE = """
target: {name: npu, summary: a vendor's}
codegen: tool
tool: {compiler: npuc, device: npud, arguments: [-O, "2"], seconds: 1, megabytes: 1}
tolerance: {absolute: 0.5, relative: 0, because: it rounds}
timing: {clock_khz: {value: 1000, source: made up}}
operators: {Relu: []}
pipeline: [partition]
"""
Script = Callable[[str, str], Path]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    def write(name: str, body: str) -> Path:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    return write


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "npu.yaml").write_text(FILE)
    return load_machine(str(tmp_path / "npu.yaml"))


def _tool(machine: Machine) -> Tool:
    assert machine.tool is not None
    return machine.tool


def test_the_file_says_all_of_a_tool(machine: Machine) -> None:
    tool = _tool(machine)
    assert (tool.compiler, tool.device, tool.arguments, tool.seconds, tool.megabytes) == ("npuc", "npud", ("-O", "2"), 1, 1)
    near = machine.tolerance
    assert near is not None
    assert (near.absolute, near.relative, near.because) == (0.5, 0.0, "it rounds")
    assert machine.takes_graphs


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("compiler: npuc", "compiler: ../npuc", "the name of a program, not a path"),
        ("seconds: 1, ", "", "E0109 missing key 'seconds'"),
        ("because: it rounds", "because: ''", "because"),
        ("relative: 0,", "relative: 2,", "relative"),
        ("tolerance:", "assumptions: [none]\n#", "E0109 missing key 'tolerance'"),
        ("codegen: tool", "codegen: binary", "E0109"),
    ],
)
def test_a_wrong_section_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "npu.yaml").write_text(FILE.replace(old, new))
    with pytest.raises(UserError) as caught:
        load_machine(str(tmp_path / "npu.yaml"))
    assert message in "\n".join(diagnostic.render() for diagnostic in caught.value.diagnostics)


def test_only_programs_that_the_user_names_are_started(machine: Machine, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, plain = script("npuc", "true"), tmp_path / "npud"
    plain.write_text("no program")
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=f"E1116 machine 'npu' needs its vendor's program 'npuc', which {VARIABLE} does not name"):
        tool_path(machine, "npuc")
    monkeypatch.setenv(VARIABLE, f"{path}:{plain}:{tmp_path}/gone/other")
    assert tool_path(machine, "npuc") == path
    for name in ("npud", "other"):
        with pytest.raises(UserError, match=r"E1116 .* is no program that can be started"):
            tool_path(machine, name)


def test_the_compiler_gets_the_model_and_its_arguments(machine: Machine, script: Script) -> None:
    path = script("npuc", 'echo "$1 $2 $3 $4" > "$2"; cat "$1" >> "$2"')
    assert run_compiler(path, _tool(machine), b"a model", "region0") == b"region.onnx region.bin -O 2\na model"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("echo first; echo; echo no code for Gelu >&2; exit 3", "ends with code 3, on region 'region0': no code for Gelu"),
        ("kill -9 $$", "ends with code -9, on region 'region0'"),
        ("true", "writes 0 bytes of code, and may write 1 to 1 MB"),
        ("ln -s /etc/passwd region.bin", "writes 0 bytes of code"),
        ("head -c 1000001 /dev/zero > region.bin", "writes 1000001 bytes of code, and may write 1 to 1 MB"),
        ("echo waiting; (sleep 30; echo late) & sleep 30", "takes longer than 1 s, on region 'region0': waiting"),
    ],
)
def test_a_compiler_that_fails_is_an_error(body: str, message: str, machine: Machine, script: Script) -> None:
    with pytest.raises(UserError, match=f"E1117 the vendor's compiler 'npuc' {message}"):
        run_compiler(script("npuc", body), _tool(machine), b"", "region0")


def test_a_file_that_is_no_program_is_an_error(machine: Machine, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="E1117 the vendor's compiler 'npuc' cannot be started: "):
        run_compiler(tmp_path / "gone", _tool(machine), b"", "region0")
