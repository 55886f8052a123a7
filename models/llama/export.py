"""Writes a small language model built as Llama is, as one step of decoding: norms by the root of the mean square, rotary positions, two queries to a
key, gated feed-forward layers; a token in, the scores of the next one out, keys and values of earlier tokens as states. Keys are kept turned.

Run as `python models/llama/export.py`. Weights are made up from a seed, the same everywhere; answers have no meaning.
"""

import math
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from toolchain.models.exact_ops import BELL_SQUARE, bell, key_of
from toolchain.models.files import cache_folder
from toolchain.spec.arrays import Array

NAME, SEED = "llama", 11
LAYERS, WIDTH, HEADS, SHARED, INNER, VOCABULARY = 2, 256, 4, 2, 512, 1024
"""HEADS: of queries; SHARED: of keys and values."""
CACHE, POSITIONS, BASE = 64, 512, 10000.0
"""Tokens that a step sees, the longest text, and the slowest wave of its positions."""
SHARES = 2.0
"""Deviation of the queries' weights: shares as uneven as in trained networks."""
CHANNELS = WIDTH // HEADS

STEP = f"""
  x0 = Gather (tokens, token)
  one = Constant <value = int64[1] {{1}}> ()
  next_position = Add (position, one)
  cos_row = Gather (cosines, position)
  sin_row = Gather (sines, position)
  begin = Constant <value_ints = [0, 1]> ()
  cos = Unsqueeze (cos_row, begin)
  sin = Unsqueeze (sin_row, begin)
  last = Constant <value = int64[1] {{{CACHE - 1}}}> ()
  first = Sub (last, position)
  slots = Constant <value_ints = [{", ".join(map(str, range(CACHE)))}]> ()
  reached = GreaterOrEqual (slots, first)
  row = Constant <value_ints = [1, 1, 1, {CACHE}]> ()
  counts = Reshape (reached, row)
  present = Constant <value_float = 0.0> ()
  absent = Constant <value_float = -10000.0> ()
  mask = Where (counts, present, absent)
  end = Constant <value_ints = [{CACHE}]> ()
  zero = Constant <value_ints = [0]> ()
  half = Constant <value_ints = [{CHANNELS // 2}]> ()
  whole = Constant <value_ints = [{CHANNELS}]> ()
  channel = Constant <value_ints = [3]> ()
  two = Constant <value_float = 2.0> ()
  unit = Constant <value_float = 1.0> ()
  small = Constant <value_float = 1e-5> ()
  axis = Constant <value_ints = [-1]> ()
  behind = Constant <value_ints = [2]> ()
  queries_apart = Constant <value_ints = [0, 0, {HEADS}, {CHANNELS}]> ()
  keys_apart = Constant <value_ints = [0, 0, {SHARED}, {CHANNELS}]> ()
  repeats = Constant <value_ints = [1, {SHARED}, {HEADS // SHARED}, {CACHE}, {CHANNELS}]> ()
  repeated = Constant <value_ints = [1, {HEADS}, {CACHE}, {CHANNELS}]> ()
  together = Constant <value_ints = [0, 0, {WIDTH}]> ()
  kept_together = Constant <value_ints = [0, 0, {SHARED * CHANNELS}]> ()
  root = Constant <value_float = {math.sqrt(CHANNELS)}> ()
"""
NORM = """
  #_squares = Pow ($, two)
  #_power = ReduceMean (#_squares, axis)
  #_shifted = Add (#_power, small)
  #_root = Sqrt (#_shifted)
  #_inverse = Div (unit, #_root)
  #_normal = Mul ($, #_inverse)
  # = Mul (#_scale, #_normal)
"""
"""# is the norm's name, $ its operand."""
ROTARY = """
  #_apart = Reshape (#, $_apart)
  #_heads = Transpose <perm = [0, 2, 1, 3]> (#_apart)
  #_low = Slice (#_heads, zero, half, channel)
  #_high = Slice (#_heads, half, whole, channel)
  #_minus = Neg (#_high)
  #_swapped = Concat <axis = -1> (#_minus, #_low)
  #_kept = Mul (#_heads, cos)
  #_moved = Mul (#_swapped, sin)
  #_turned = Add (#_kept, #_moved)
"""
"""# is the sequence's name, $ the word of its heads."""
REPEATED = """
  #_single = Unsqueeze (%, behind)
  #_spread = Expand (#_single, repeats)
  #_all = Reshape (#_spread, repeated)
"""
APPENDED = """
  key@_back = Transpose <perm = [0, 2, 1, 3]> (key@_turned)
  new_key@ = Reshape (key@_back, kept_together)
  kept_keys@ = Slice (keys@, one, end, one)
  next_keys@ = Concat <axis = 1> (kept_keys@, new_key@)
  kept_values@ = Slice (values@, one, end, one)
  next_values@ = Concat <axis = 1> (kept_values@, value@)
"""
SPLIT = """
  #_apart = Reshape (next_#, keys_apart)
  #_heads = Transpose <perm = [0, 2, 1, 3]> (#_apart)
"""
APPENDED_BY_HEADS = """
  kept_keys@ = Slice (keys@, one, end, behind)
  next_keys@ = Concat <axis = 2> (kept_keys@, key@_turned)
  value@_apart = Reshape (value@, keys_apart)
  value@_heads = Transpose <perm = [0, 2, 1, 3]> (value@_apart)
  kept_values@ = Slice (values@, one, end, behind)
  next_values@ = Concat <axis = 2> (kept_values@, value@_heads)
"""
"""The caches of the next step, sequences or by heads."""
LAYER = (
    NORM.replace("#", "norm@").replace("$", "x@")
    + """
  query@ = MatMul (norm@, query@_weight)
  key@ = MatMul (norm@, key@_weight)
  value@ = MatMul (norm@, value@_weight)
"""
    + ROTARY.replace("#", "query@").replace("$", "queries")
    + ROTARY.replace("#", "key@").replace("$", "keys")
    + "CACHES"
    + """
  keys@_columns = Transpose <perm = [0, 1, 3, 2]> (keys@_all)
  products@ = MatMul (query@_turned, keys@_columns)
  scaled@ = Div (products@, root)
  masked@ = Add (scaled@, mask)
  shares@ = Softmax <axis = -1> (masked@)
  sums@ = MatMul (shares@, values@_all)
  turned@ = Transpose <perm = [0, 2, 1, 3]> (sums@)
  context@ = Reshape (turned@, together)
  mixed@ = MatMul (context@, mixed@_weight)
  middle@ = Add (x@, mixed@)
"""
    + NORM.replace("#", "middle_norm@").replace("$", "middle@")
    + """
  gate@ = MatMul (middle_norm@, gate@_weight)
  up@ = MatMul (middle_norm@, up@_weight)
  open@ = Sigmoid (gate@)
  active@ = Mul (gate@, open@)
  gated@ = Mul (active@, up@)
  down@ = MatMul (gated@, down@_weight)
  x% = Add (middle@, down@)
"""
)
CACHES = APPENDED + "".join((SPLIT + REPEATED.replace("%", "#_heads")).replace("#", name) for name in ("keys@", "values@"))
CACHES_BY_HEADS = APPENDED_BY_HEADS + "".join(REPEATED.replace("%", "next_#").replace("#", name) for name in ("keys@", "values@"))
END = (
    NORM.replace("#", "last_norm").replace("$", "x@")
    + """
  scores = MatMul (last_norm, scores_weight)
"""
)


def weights(layers: int) -> dict[str, Array]:
    """Every constant by name, float32."""
    kept = SHARED * CHANNELS
    of_layer = {"query": (WIDTH, WIDTH), "key": (WIDTH, kept), "value": (WIDTH, kept), "mixed": (WIDTH, WIDTH)}
    of_layer |= {"gate": (WIDTH, INNER), "up": (WIDTH, INNER), "down": (INNER, WIDTH)}
    shapes = {f"{name}{k}_weight": shape for k in range(layers) for name, shape in of_layer.items()}
    shapes |= {"tokens": (VOCABULARY, WIDTH), "scores_weight": (WIDTH, VOCABULARY)}
    found = {name: bells(name, shape, 1 / math.sqrt(shape[0]) if name.endswith("_weight") else 1.0) for name, shape in shapes.items()}
    found |= {name: array * np.float32(SHARES) for name, array in found.items() if name.startswith("query")}
    norms = ["last_norm", *(f"{name}{k}" for k in range(layers) for name in ("norm", "middle_norm"))]
    return found | {f"{norm}_scale": np.ones(WIDTH, np.float32) for norm in norms} | tables()


def tables() -> dict[str, Array]:
    """Cosines and sines [positions, channels of a head], each angle twice."""
    half = CHANNELS // 2
    angles = np.arange(POSITIONS)[:, None] / BASE ** (np.arange(half) / half)
    return {name: np.tile(function(angles), 2).astype(np.float16).astype(np.float32) for name, function in (("cosines", np.cos), ("sines", np.sin))}


def bells(name: str, shape: tuple[int, ...], deviation: float) -> Array:
    """Bell-shaped float32, whole numbers times one scale."""
    return bell(key_of(SEED, name), math.prod(shape)).reshape(shape).astype(np.float32) * np.float32(deviation / math.sqrt(BELL_SQUARE))


def step(layers: int = LAYERS, by_heads: bool = False) -> onnx.ModelProto:
    """The model with its weights. by_heads: caches [batch, heads, rows, channels of a head], as exporters have them, in place of sequences."""
    caches = [(f"{name}{k}", f"next_{name}{k}") for k in range(layers) for name in ("keys", "values")]
    shape = f"float[1, {SHARED}, {CACHE}, {CHANNELS}]" if by_heads else f"float[1, {CACHE}, {SHARED * CHANNELS}]"
    layer = LAYER.replace("CACHES", CACHES_BY_HEADS if by_heads else CACHES)
    inputs = ", ".join(["int64[1, 1] token", "int64[1] position", *(f"{shape} {taken}" for taken, _ in caches)])
    outputs = ", ".join([f"float[1, 1, {VOCABULARY}] scores", "int64[1] next_position", *(f"{shape} {made}" for _, made in caches)])
    body = STEP + "".join(layer.replace("@", str(k)).replace("%", str(k + 1)) for k in range(layers)) + END.replace("@", str(layers))
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {NAME} ({inputs}) => ({outputs}) {{{body}}}')
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights(layers).items())
    onnx.checker.check_model(model)
    return model


def main() -> Path:
    """Writes the file into the user's cache, and says where."""
    path = cache_folder() / NAME / f"{NAME}.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(step().SerializeToString(deterministic=True))
    return path


if __name__ == "__main__":
    print(main())
