"""Recurrent layers of any kind, as files have them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from hypothesis import strategies as st

from tests.graph.imported import Array, normal
from tests.graph.onnx_builder import model, n, save
from toolchain.graph.importing.load import load_graph

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
OUTPUTS = ("y", "last", "cell")
PARAMETERS = {"Relu": 0, "Softsign": 0, "LeakyRelu": 1, "Elu": 1, "HardSigmoid": 2, "ScaledTanh": 2}
"""Further activations, and how many of alpha and beta each has."""
ACTIVATIONS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}


@dataclass(frozen=True)
class Recurrent:
    """operands: that are given, of `bias`, `starts`, `lengths`, `peepholes`. attributes: further ones. outputs: of OUTPUTS that are read."""

    kind: str = "LSTM"
    direction: str = "forward"
    steps: int = 4
    size: int = 3
    hidden: int = 2
    batch: int = 1
    operands: tuple[str, ...] = ("bias",)
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    outputs: tuple[str, ...] = ("y",)

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.steps, self.batch, self.size

    def constants(self) -> dict[str, Array]:
        directions, rows = 1 + (self.direction == "bidirectional"), GATES[self.kind] * self.hidden
        state = (directions, self.batch, self.hidden)
        return {
            "w": normal(1, directions, rows, self.size),
            "r": normal(2, directions, rows, self.hidden),
            "bias": normal(3, directions, 2 * rows),
            "lengths": np.full(self.batch, self.steps, np.int32),
            "start": normal(4, *state),
            "cells": normal(5, *state),
            "peepholes": normal(6, directions, 3 * self.hidden),
        }

    def node(self) -> onnx.NodeProto:
        starts = [name if "starts" in self.operands else "" for name in (("start", "cells") if self.kind == "LSTM" else ("start",))]
        given = ["x", "w", "r", *(name if name in self.operands else "" for name in ("bias", "lengths")), *starts]
        given += ["peepholes"] if "peepholes" in self.operands else []
        made = [name if name in self.outputs else "" for name in OUTPUTS[: 3 if self.kind == "LSTM" else 2]]
        while not made[-1]:
            made.pop()
        while not given[-1]:
            given.pop()
        return n(self.kind, given, made, "layer", hidden_size=self.hidden, direction=self.direction, **self.attributes)

    def model(self, folder: Path) -> ir.Model:
        """The layer alone, with `x` as input."""
        node = self.node()
        known = {name: array for name, array in self.constants().items() if name in node.input}
        return load_graph(save(model([node], {"x": self.shape}, {name: None for name in node.output if name}, known), folder))


@st.composite
def activations(draw: st.DrawFn, kind: str, directions: int) -> dict[str, Any]:
    """Attributes: the names, and in one direction their parameters."""
    usual = [*ACTIVATIONS[kind]] * directions
    if draw(st.booleans()):
        return {"activations": usual}
    names = [draw(st.sampled_from([name, *PARAMETERS])) for name in usual]
    made: dict[str, Any] = {"activations": names}
    if directions == 1:
        for least, key in ((1, "activation_alpha"), (2, "activation_beta")):
            given = [draw(st.sampled_from([0.25, 0.5, 0.75])) for name in names if PARAMETERS.get(name, 0) >= least]
            made |= {key: given} if given else {}
    return made


@st.composite
def layers(draw: st.DrawFn) -> Recurrent:
    """Of one sample, with any activations, the default ones written out or not, and parameters of others in one direction."""
    kind, direction = draw(st.sampled_from(sorted(GATES))), draw(st.sampled_from(["forward", "reverse", "bidirectional"]))
    operands = draw(st.sets(st.sampled_from(["bias", "lengths", "starts", *(["peepholes"] if kind == "LSTM" else [])])))
    outputs = draw(st.sets(st.sampled_from(OUTPUTS[: 3 if kind == "LSTM" else 2]), min_size=1))
    attributes: dict[str, Any] = {}
    if draw(st.booleans()):
        attributes |= draw(activations(kind, 1 + (direction == "bidirectional")))
    if draw(st.booleans()):
        attributes["clip"] = draw(st.sampled_from([0.5, 3.0]))
    if kind == "GRU":
        attributes["linear_before_reset"] = draw(st.integers(0, 1))
    if kind == "LSTM":
        attributes["input_forget"] = draw(st.integers(0, 1))
    steps, size, hidden = draw(st.integers(2, 7)), draw(st.integers(1, 9)), draw(st.integers(1, 9))
    return Recurrent(kind, direction, steps, size, hidden, 1, tuple(sorted(operands)), attributes, tuple(sorted(outputs)))
