"""Networks of any length for tests: an encoder with a mask, rows that do not mix, and a sum over all rows, which padding would change."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from onnx import numpy_helper, parser

from toolchain.runtime.lengths import LengthBundle, read_lengths
from toolchain.tasks.actions.paths import lengths_file
from toolchain.tasks.plan import Plan, make_plan
from toolchain.tasks.work import fulfil

WIDTH, WORDS, MOST, HEADS = 16, 20, 32, 2

HEAD = '<ir_version: 10, opset_import: ["": 21]>\n'
ENCODER = """{
  embedded = Gather (words_table, ids)
  size = Shape <start: int = 1, end: int = 2> (ids)
  zero = Constant <value_ints: ints = [0]> ()
  positions = Slice (positions_table, zero, size, zero)
  x = Add (embedded, positions)
  query_rows = MatMul (x, wq)
  key_rows = MatMul (x, wk)
  value_rows = MatMul (x, wv)
  split = Constant <value_ints: ints = [0, 0, 2, 8]> ()
  whole = Constant <value_ints: ints = [0, 0, 16]> ()
  query_split = Reshape (query_rows, split)
  key_split = Reshape (key_rows, split)
  value_split = Reshape (value_rows, split)
  query = Transpose <perm: ints = [0, 2, 1, 3]> (query_split)
  key = Transpose <perm: ints = [0, 2, 3, 1]> (key_split)
  value = Transpose <perm: ints = [0, 2, 1, 3]> (value_split)
  scores = MatMul (query, key)
  axes = Constant <value_ints: ints = [1, 2]> ()
  float_mask = Cast <to: int = 1> (mask)
  one = Constant <value_float: float = 1.0> ()
  absent = Sub (one, float_mask)
  far = Constant <value_float: float = -10000.0> ()
  bias_row = Mul (absent, far)
  bias = Unsqueeze (bias_row, axes)
  masked = Add (scores, bias)
  shares = Softmax <axis: int = -1> (masked)
  mixed_heads = MatMul (shares, value)
  mixed_rows = Transpose <perm: ints = [0, 2, 1, 3]> (mixed_heads)
  mixed = Reshape (mixed_rows, whole)
  hidden_sum = MatMul (mixed, wh)
  hidden = Add (hidden_sum, bh)
  active = Relu (hidden)
  words_sum = MatMul (active, wo)
  words = Add (words_sum, x)
}"""
ROWS = "{\n  sum = MatMul (x, wh)\n  biased = Add (sum, bh)\n  y = Relu (biased)\n}"
SUM = "{\n  sum = MatMul (x, wh)\n  biased = Add (sum, bh)\n  rows = Relu (biased)\n  y = ReduceSum <keepdims: int = 0> (rows, axes)\n}"
SIZES = {
    "words_table": (WORDS, WIDTH), "positions_table": (MOST, WIDTH), "wq": (WIDTH, WIDTH), "wk": (WIDTH, WIDTH), "wv": (WIDTH, WIDTH),
    "wh": (WIDTH, 2 * WIDTH), "bh": (2 * WIDTH,), "wo": (2 * WIDTH, WIDTH),
}  # fmt: skip


def encoder(path: Path) -> Path:
    """`ids` and `mask`, int64 [1, sequence], to `words`, float32 [1, sequence, 16]."""
    return _written(path, "encoder (int64[1, sequence] ids, int64[1, sequence] mask) => (float[1, sequence, 16] words) " + ENCODER)


def rows(path: Path) -> Path:
    """Each row of `x`, float32 [1, length, 16], by itself to one of `y`, [1, length, 32]."""
    return _written(path, f"rows (float[1, length, {WIDTH}] x) => (float[1, length, {2 * WIDTH}] y) " + ROWS)


def total(path: Path) -> Path:
    """The sum of all rows, [1, 32]: rows of zeros have a bias."""
    return _written(path, f"total (float[1, length, {WIDTH}] x) => (float[1, {2 * WIDTH}] y) " + SUM, {"axes": np.array([1])})


def samples(path: Path, count: int, length: int, seed: int = 0) -> Path:
    """Recorded inputs of the encoder, of any length up to `length`, the rest masked."""
    random = np.random.default_rng(seed)
    sizes = random.integers(length // 2, length + 1, count)
    mask = (np.arange(length) < sizes[:, None]).astype(np.int64)
    np.savez(path, ids=(random.integers(1, WORDS, (count, length)) * mask)[:, None], mask=mask[:, None])
    return path


def _written(path: Path, text: str, more: "dict[str, np.typing.NDArray[np.int64]] | None" = None) -> Path:
    model = parser.parse_model(HEAD + text)
    read = {name for node in model.graph.node for name in node.input}
    random = np.random.default_rng(1)
    weights = {name: (random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32) for name, shape in SIZES.items()}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in {**weights, **(more or {})}.items() if name in read)
    onnx.save(model, path)
    return path


@dataclass(frozen=True)
class Built:
    """plan: of the encoder in two lengths on dpuv3, made as far as the bundle of both. folder: lives as long as this does."""

    plan: Plan
    folder: TemporaryDirectory[str]

    @property
    def file(self) -> Path:
        return lengths_file(self.plan.joined[0].job)

    @property
    def bundle(self) -> LengthBundle:
        found = read_lengths(self.file)
        assert found is not None
        return found


@cache
def built() -> Built:
    """Once for all tests of a process."""
    folder = TemporaryDirectory(prefix="lengths-")
    root = Path(folder.name)
    given = {"target": "dpuv3", "model": str(encoder(root / "encoder.onnx")), "calibration": str(samples(root / "samples.npz", 12, 16))}
    plan = make_plan({**given, "lengths": "sequence:8,16", "place": "all", "effort": "0"}, root / "build")
    fulfil(plan.joined[0], lambda _: None)
    return Built(plan, folder)
