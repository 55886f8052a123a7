"""Random small networks in the layer language: every kind of layer, sizes and channels that are no multiple of anything."""

import random
from collections.abc import Callable
from pathlib import Path

import onnx

from tests.passes.random_networks import QUANTISABLE, random_network

Layer = str
BLOCKS = """\
blocks:
  grouped:
    takes: [width, groups]
    layers:
      - conv: {out: width, kernel: 1, act: relu}
      - conv: {out: width, kernel: 3, pad: half, groups: groups, act: relu}
"""


def random_model(seed: int, folder: Path) -> Path:
    """A file in a folder: odd seeds in the layer language, even ones as ONNX with outputs inside, sums of any two tensors and concatenations."""
    if seed % 2:
        path = folder / "random.yaml"
        path.write_text(network(seed))
    else:
        path = folder / "random.onnx"
        onnx.save(random_network(seed + 40, QUANTISABLE, 7).model(), path)
    return path


def network(seed: int) -> str:
    """The text of a model file; the same for the same seed."""
    draw = random.Random(seed)
    channels, height, width = draw.choice([1, 3, 16, 17, 40]), draw.randint(7, 20), draw.randint(7, 20)
    layers = [_convolution(draw)]
    kinds: list[Callable[[random.Random], Layer]] = [_convolution, _depthwise, _pool, _add, _concat, _dilated, _grouped, _upsample]
    layers += [draw.choice(kinds)(draw) for _ in range(draw.randint(3, 6))]
    layers += draw.choice(
        [["globalpool", "flatten", "dense: {out: 10}", "softmax"], ["flatten", "dense: {out: 33, act: relu}", "dense: {out: 7}"], []]
    )
    lines = "\n".join(f"  - {layer}" for layer in layers)
    return (
        f"model: {{name: random{seed}, summary: for a test, sources: [here]}}\n"
        f"inputs: {{image: [1, {channels}, {height}, {width}]}}\nseed: {seed}\n{BLOCKS}layers:\n{lines}\n"
    )


def _activation(draw: random.Random) -> str:
    return draw.choice(["act: none", "act: relu", "act: relu6", "act: leaky", "norm: true, act: relu", "norm: true, act: none"])


def _convolution(draw: random.Random) -> Layer:
    kernel = draw.choice([1, 1, 2, 3, 3, 5, 7])
    size = f"[{kernel}, {draw.choice([1, 3])}]" if draw.random() < 0.2 else str(kernel)
    pad = draw.choice(["half", "same"])
    out, stride = draw.choice([1, 8, 16, 20, 33, 64]), draw.choice([1, 1, 1, 2, 2, 3])
    return f"conv: {{out: {out}, kernel: {size}, stride: {stride}, pad: {pad}, {_activation(draw)}}}"


def _depthwise(draw: random.Random) -> Layer:
    return f"conv: {{out: channels, groups: channels, kernel: {draw.choice([3, 5])}, stride: {draw.choice([1, 2])}, pad: half, {_activation(draw)}}}"


def _dilated(draw: random.Random) -> Layer:
    return f"conv: {{out: {draw.choice([16, 24])}, kernel: 3, dilation: 2, pad: 2, {_activation(draw)}}}"


def _grouped(draw: random.Random) -> Layer:
    """A convolution whose channels fit two groups, then one with groups."""
    return f"grouped: {{width: {draw.choice([16, 32, 48])}, groups: {draw.choice([2, 4])}}}"


def _pool(draw: random.Random) -> Layer:
    kernel = draw.choice([2, 3])
    options = draw.choice(["", ", pad: half", ", ceil: true"]) if kernel == 3 else draw.choice(["", ", ceil: true"])
    kind = draw.choice(["maxpool", "maxpool", "avgpool"])
    border = ", include_pad: true" if kind == "avgpool" and "pad" in options else ""
    return f"{kind}: {{kernel: {kernel}, stride: {draw.choice([1, 2])}{options}{border}}}"


def _add(draw: random.Random) -> Layer:
    inner = f"conv: {{out: channels, kernel: {draw.choice([1, 3])}, pad: half, act: {draw.choice(['relu', 'none'])}}}"
    return f"add: {{act: {draw.choice(['relu', 'none', 'relu6'])}, of: [[{{{inner}}}], []]}}"


def _concat(draw: random.Random) -> Layer:
    first, second = draw.choice([16, 32]), draw.choice([16, 24])
    parts = f"[{{conv: {{out: {first}, kernel: 1}}}}], [{{conv: {{out: {second}, kernel: 3, pad: half, act: relu}}}}]"
    return f"concat: {{of: [{parts}{', []' if draw.random() < 0.4 else ''}]}}"


def _upsample(draw: random.Random) -> Layer:
    return f"upsample: {{factor: {draw.choice([2, 3])}}}"
