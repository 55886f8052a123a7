"""A machine with feature maps in flat memory, and the same one in memory that wraps, so that rings of rows may go round it."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from toolchain.spec.load import load_text
from toolchain.spec.model import Machine

DNNVM = Path(__file__).resolve().parents[3] / "targets" / "dnnvm.yaml"
MEMORY = ("features: {kind: scratchpad,", "features: {kind: ring,")
STARTS = (
    (
        "start: place.slot + (row - place.top) // ROWS * place.line + (column - place.left) *\n        place.pixel + first - place.at\n",
        "start: (place.slot + (row - place.top) // ROWS * place.line + (column - place.left) *\n        place.pixel + first - place.at) % DEPTH\n",
    ),
    ("address: place.slot + q * place.pixel + k * 256,", "address: (place.slot + q * place.pixel + k * 256) % DEPTH,"),
)
"""Addresses of rows in its kernels, and the same where they go on at the beginning of a bank."""


def replaced(text: str, *changes: tuple[str, str]) -> str:
    """The text with changes of passages that are there once."""
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def write_wrapping(folder: Path) -> Path:
    """The machine of `targets/dnnvm.yaml` with feature maps in a memory that wraps, in a folder with its kernels; the path of its file."""
    shutil.copytree(DNNVM.with_suffix(""), folder / "dnnvm")
    kernels = folder / "dnnvm" / "kernels.yaml"
    kernels.write_text(replaced(kernels.read_text(), *STARTS))
    path = folder / "dnnvm.yaml"
    path.write_text(replaced(DNNVM.read_text(), MEMORY))
    return path


def machine_of(path: Path, params: Mapping[str, str]) -> Machine:
    """The machine of a file, with these parameters."""
    return load_text(path.read_text(), str(path), overrides=params)
