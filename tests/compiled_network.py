"""A network of a test, compiled for a machine in a folder of its own."""

import tempfile
from pathlib import Path
from typing import Any

import onnx
from numpy.typing import NDArray

from bench.in_process import Compiled, Target, compile_file


def compile_network(proto: onnx.ModelProto, name: str, target: Target, samples: NDArray[Any]) -> Compiled:
    """name: of the model. samples: [count, ...] of its one input, 'x'."""
    folder = Path(tempfile.mkdtemp())
    onnx.save(proto, folder / f"{name}.onnx")
    return compile_file(folder / f"{name}.onnx", target, folder / "stages", {}, {"x": samples})
