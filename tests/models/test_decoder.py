"""A small decoder writes the tokens that its integer network writes in ONNX Runtime, with its caches on the device."""

import os
import runpy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import toolchain
from toolchain.graph.session import open_session, run_session
from toolchain.graph.states import Sequences, Tensors, unrolled
from toolchain.models.load import load_model
from toolchain.tasks.actions.paths import graph_file

FOLDER = Path(__file__).resolve().parents[2] / "models" / "decoder"
LAYERS, TOKENS = (1, 4) if os.environ.get("TILEWRIGHT_SLOW") else (1,), 32


@cache
def exported() -> dict[str, Any]:
    return runpy.run_path(str(FOLDER / "export.py"))


def written(folder: Path, layers: int) -> Path:
    """The model's file with so many layers, beside its ONNX file."""
    onnx.save(exported()["step"](layers), folder / "decoder.onnx")
    text = (FOLDER / "decoder.yaml").read_text().replace("{cache: decoder/decoder.onnx, script: export.py}", "decoder.onnx")
    kept = [line for line in text.splitlines() if not any(line.startswith(f"  {name}{k}:") for name in ("keys", "values") for k in range(layers, 4))]
    path = folder / "decoder.yaml"
    path.write_text("\n".join(kept) + "\n")
    return path


def test_the_file_has_the_states_of_the_script(tmp_path: Path) -> None:
    model = load_model(str(written(tmp_path, exported()["LAYERS"])))
    assert len(model.states) == 2 * exported()["LAYERS"] + 1
    assert [*model.given] == ["token"]
    assert model.inputs["token"].below == exported()["VOCABULARY"]


def test_the_script_writes_the_same_bytes_every_time(tmp_path: Path) -> None:
    first, second = (written(tmp_path, 1).with_suffix(".onnx").read_bytes() for _ in range(2))
    assert first == second


def greedy(session: Any, starts: Tensors, pairs: dict[str, str]) -> list[int]:
    states, token, found = dict(starts), 1, list[int]()
    for _ in range(TOKENS):
        outputs = run_session(session, {"token": np.array([[token]]), **states})
        states = {name: outputs[output] for name, output in pairs.items()}
        token = int(outputs["scores"].argmax())
        found.append(token)
    return found


@pytest.mark.parametrize("layers", LAYERS)
def test_greedy_tokens_are_those_of_the_integer_network(tmp_path: Path, layers: int) -> None:
    built = toolchain.compile(str(written(tmp_path, layers)), "gemmini", effort=0, folder=tmp_path / "build")
    sequence, token, found = built.load().steps(), 1, list[int]()
    for _ in range(TOKENS):
        token = int(sequence.step({"token": np.array([[token]])}).outputs["scores"].argmax())
        found.append(token)
    assert [place.place for place in sequence.places] == ["host", *["device"] * 2 * layers]
    pairs = {place.state.input: place.state.output for place in sequence.places}
    assert found == greedy(open_session(graph_file(built.job), optimise=False), sequence.executor.starts, pairs)
    assert len({*found}) > TOKENS // 4  # no text of one word


def test_a_step_sees_the_last_tokens_of_its_cache_alone(tmp_path: Path) -> None:
    """Two texts that differ in one token have the same scores again once it has left the cache."""
    session = open_session(written(tmp_path, 1).with_suffix(".onnx"), optimise=False)
    cache_size, width = exported()["CACHE"], exported()["WIDTH"]
    tokens = np.random.default_rng(0).integers(0, 1024, (1, cache_size + 2, 1, 1))
    other = tokens.copy()
    other[0, 0] = (tokens[0, 0] + 1) % 1024
    starts = {"position": np.zeros(1, np.int64), **{name: np.zeros((1, cache_size, width), np.float32) for name in ("keys0", "values0")}}
    pairs, scores = {name: f"next_{name}" for name in starts}, list[list[Any]]()
    for text in (tokens, other):
        scores.append([])

        def run(inputs: Tensors) -> Tensors:
            outputs = run_session(session, inputs)
            scores[-1].append(outputs["scores"])
            return outputs

        unrolled(run, Sequences({"token": text}, pairs, starts))
    assert not np.array_equal(scores[0][cache_size - 1], scores[1][cache_size - 1])
    assert np.array_equal(scores[0][cache_size], scores[1][cache_size])
