"""A small decoder built as Llama is writes the tokens of its file on a machine of halves, as one region with its caches on the device."""

import runpy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import toolchain
from tests.models.test_decoder import TOKENS, greedy
from toolchain.graph.session import open_session
from toolchain.models.load import load_model
from toolchain.tasks.actions.paths import graph_file

FOLDER = Path(__file__).resolve().parents[2] / "models" / "llama"


@cache
def exported() -> dict[str, Any]:
    return runpy.run_path(str(FOLDER / "export.py"))


def written(folder: Path, by_heads: bool = False) -> Path:
    """The model's file beside its ONNX file."""
    onnx.save(exported()["step"](by_heads=by_heads), folder / "llama.onnx")
    path = folder / "llama.yaml"
    path.write_text((FOLDER / "llama.yaml").read_text().replace("{cache: llama/llama.onnx, script: export.py}", "llama.onnx"))
    return path


def test_the_file_has_the_states_of_the_script(tmp_path: Path) -> None:
    model = load_model(str(written(tmp_path)))
    assert len(model.states) == 2 * exported()["LAYERS"] + 1
    assert [*model.given] == ["token"]
    assert model.inputs["token"].below == exported()["VOCABULARY"]


def test_tables_name_each_angle_twice_and_turn_by_one_more_a_row() -> None:
    tables = exported()["tables"]()
    cos, sin = (np.split(tables[name].astype(np.float64), 2, -1) for name in ("cosines", "sines"))
    assert np.array_equal(cos[0], cos[1])
    assert np.array_equal(sin[0], sin[1])
    np.testing.assert_allclose(cos[0][1:, 0], np.cos(np.arange(1, len(cos[0]))), atol=1e-3)
    np.testing.assert_allclose(cos[0] ** 2 + sin[0] ** 2, 1, atol=2e-3)


@pytest.mark.drawn(1)
@pytest.mark.parametrize("by_heads", [False, True])
def test_greedy_tokens_are_those_of_the_file(tmp_path: Path, by_heads: bool) -> None:
    """So are caches by heads, which go round as sequences."""
    path = written(tmp_path, by_heads)
    built = toolchain.compile(str(path), "stcp920:f16", effort=0, folder=tmp_path / "build")
    sequence, token, found = built.load().steps(), 1, list[int]()
    for _ in range(TOKENS):
        token = int(sequence.step({"token": np.array([[token]])}).outputs["scores"].argmax())
        found.append(token)
    assert [place.place for place in sequence.places] == ["host", *["device"] * 4]
    pairs = {place.state.input: place.state.output for place in sequence.places}
    assert found == greedy(open_session(path.with_suffix(".onnx")), sequence.executor.starts, pairs)
    assert len({*found}) > TOKENS // 4  # no text of one word
    nodes = onnx.load(graph_file(built.job), load_external_data=False).graph.node
    assert sum(node.domain == "tilewright.region" for node in nodes) == 1
    kinds = [node.op_type for node in nodes]
    assert not {*kinds} & {"MatMul", "Softmax", "Neg", "Expand"}
    assert kinds.count("Transpose") == (8 if by_heads else 0)  # at both ends of each cache
    caches = {name: state for name, state in sequence.states().items() if name != "position"}
    assert {state.shape for state in caches.values()} == {(1, 2, 64, 64) if by_heads else (1, 64, 128)}
    again = built.load().steps()
    again.reset(sequence.states())  # in the file's own shape, in which another sequence goes on
    one, other = (each.step({"token": np.array([[token]])}).outputs["scores"] for each in (sequence, again))
    assert np.array_equal(one, other)
