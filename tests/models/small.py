"""A small model file around a few layers."""

from pathlib import Path

from toolchain.models.expand import Network
from toolchain.models.load import load_text
from toolchain.models.model import Layered, Model

HEAD = "model: {name: small, summary: a test}\ninputs: {image: [1, 4, 12, 10]}\n"


def small(layers: str, more: str = "", head: str = HEAD) -> Model:
    """The model of a list of layers, written as YAML from the first column."""
    return load_text(f"{head}{more}layers:\n{layers}", Path("small.yaml"))


def network(layers: str, more: str = "", head: str = HEAD) -> Network:
    """Its layers written out."""
    origin = small(layers, more, head).origin
    assert isinstance(origin, Layered)
    return origin.network
