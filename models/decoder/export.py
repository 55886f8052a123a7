"""Writes a small language model as one step of decoding: a token in, the scores of the next one out, keys and values of earlier tokens as states.

Run as `python models/decoder/export.py`. Weights are made up from a seed, the same everywhere; answers have no meaning.
"""

import math
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from toolchain.models.exact_ops import BELL_SQUARE, bell, key_of
from toolchain.models.files import cache_folder
from toolchain.spec.arrays import Array

NAME, SEED = "decoder", 7
LAYERS, WIDTH, HEADS, INNER, VOCABULARY = 4, 128, 4, 512, 1024
CACHE, POSITIONS = 64, 128
"""Tokens that a step sees, and the longest text."""
SHARES = 2.0
"""Deviation of the queries' weights: shares as uneven as in trained networks."""

STEP = f"""
  embedded = Gather (tokens, token)
  placed = Gather (positions, position)
  x0 = Add (embedded, placed)
  one = Constant <value = int64[1] {{1}}> ()
  next_position = Add (position, one)
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
  apart = Constant <value_ints = [0, 0, {HEADS}, {WIDTH // HEADS}]> ()
  together = Constant <value_ints = [0, 0, {WIDTH}]> ()
  root = Constant <value_float = {math.sqrt(WIDTH // HEADS)}> ()
"""

LAYER = """
  norm@ = LayerNormalization <axis = -1> (x@, norm@.scale, norm@.bias)
  query_product@ = MatMul (norm@, query@.weight)
  query@ = Add (query_product@, query@.bias)
  new_key_product@ = MatMul (norm@, key@.weight)
  new_key@ = Add (new_key_product@, key@.bias)
  new_value_product@ = MatMul (norm@, value@.weight)
  new_value@ = Add (new_value_product@, value@.bias)
  kept_keys@ = Slice (keys@, one, end, one)
  next_keys@ = Concat <axis = 1> (kept_keys@, new_key@)
  kept_values@ = Slice (values@, one, end, one)
  next_values@ = Concat <axis = 1> (kept_values@, new_value@)
  query_apart@ = Reshape (query@, apart)
  query_heads@ = Transpose <perm = [0, 2, 1, 3]> (query_apart@)
  keys_apart@ = Reshape (next_keys@, apart)
  keys_heads@ = Transpose <perm = [0, 2, 3, 1]> (keys_apart@)
  products@ = MatMul (query_heads@, keys_heads@)
  scaled@ = Div (products@, root)
  masked@ = Add (scaled@, mask)
  shares@ = Softmax <axis = -1> (masked@)
  values_apart@ = Reshape (next_values@, apart)
  values_heads@ = Transpose <perm = [0, 2, 1, 3]> (values_apart@)
  sums@ = MatMul (shares@, values_heads@)
  turned@ = Transpose <perm = [0, 2, 1, 3]> (sums@)
  context@ = Reshape (turned@, together)
  mixed_product@ = MatMul (context@, mixed@.weight)
  mixed@ = Add (mixed_product@, mixed@.bias)
  middle@ = Add (x@, mixed@)
  middle_norm@ = LayerNormalization <axis = -1> (middle@, middle_norm@.scale, middle_norm@.bias)
  wide_product@ = MatMul (middle_norm@, wide@.weight)
  wide@ = Add (wide_product@, wide@.bias)
  active@ = Gelu (wide@)
  narrow_product@ = MatMul (active@, narrow@.weight)
  narrow@ = Add (narrow_product@, narrow@.bias)
  x% = Add (middle@, narrow@)
"""

END = """
  last_norm = LayerNormalization <axis = -1> (x@, last_norm.scale, last_norm.bias)
  scores = MatMul (last_norm, scores.weight)
"""


def weights(layers: int) -> dict[str, Array]:
    """Every constant by name, float32."""
    shapes = {f"{name}{k}.weight": (WIDTH, WIDTH) for k in range(layers) for name in ("query", "key", "value", "mixed")}
    shapes |= {f"{name}{k}.weight": shape for k in range(layers) for name, shape in {"wide": (WIDTH, INNER), "narrow": (INNER, WIDTH)}.items()}
    shapes |= {"tokens": (VOCABULARY, WIDTH), "positions": (POSITIONS, WIDTH), "scores.weight": (WIDTH, VOCABULARY)}
    found = {name: bells(name, shape, 1 / math.sqrt(shape[0]) if name.endswith(".weight") else 1.0) for name, shape in shapes.items()}
    found |= {name: array * np.float32(SHARES) for name, array in found.items() if name.startswith("query")}
    for name, width in {name.removesuffix("weight"): array.shape[1] for name, array in found.items() if name.endswith(".weight")}.items():
        found |= {f"{name}bias": np.zeros(width, np.float32)} if name != "scores." else {}
    norms = ["last_norm", *(f"{name}{k}" for k in range(layers) for name in ("norm", "middle_norm"))]
    return found | {f"{norm}.{part}": np.full(WIDTH, part == "scale", np.float32) for norm in norms for part in ("scale", "bias")}


def bells(name: str, shape: tuple[int, ...], deviation: float) -> Array:
    """Bell-shaped float32, whole numbers times one scale."""
    return bell(key_of(SEED, name), math.prod(shape)).reshape(shape).astype(np.float32) * np.float32(deviation / math.sqrt(BELL_SQUARE))


def step(layers: int = LAYERS) -> onnx.ModelProto:
    """The model with its weights."""
    caches = [(f"{name}{k}", f"next_{name}{k}") for k in range(layers) for name in ("keys", "values")]
    shape = f"float[1, {CACHE}, {WIDTH}]"
    inputs = ", ".join(["int64[1, 1] token", "int64[1] position", *(f"{shape} {taken}" for taken, _ in caches)])
    outputs = ", ".join([f"float[1, 1, {VOCABULARY}] scores", "int64[1] next_position", *(f"{shape} {made}" for _, made in caches)])
    decoders = "".join(LAYER.replace("@", str(k)).replace("%", str(k + 1)) for k in range(layers))
    body = (STEP + decoders + END.replace("@", str(layers))).replace(".weight", "_weight").replace(".bias", "_bias").replace(".scale", "_scale")
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {NAME} ({inputs}) => ({outputs}) {{{body}}}')
    model.graph.initializer.extend(numpy_helper.from_array(array, name.replace(".", "_")) for name, array in weights(layers).items())
    onnx.checker.check_model(model)
    return model


def main() -> Path:
    """Writes the file into the user's cache, and says where."""
    path = cache_folder() / "decoder" / f"{NAME}.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(step().SerializeToString(deterministic=True))
    return path


if __name__ == "__main__":
    print(main())
