"""Writes Keras' ResNet-50 with random weights as an int8 TFLite file, which bench/build --vela takes; needs `pip install tensorflow-cpu`.

python bench/resnet50_tflite.py FILE.tflite
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

SEED = 0
PICTURES = 4
SPREAD = 50.0
"""Standard deviation of a picture's values: near to that of a photograph without its mean."""


def pictures() -> Iterator[list[np.ndarray]]:
    """What the converter calibrates the activations' ranges with: NHWC, float32."""
    draw = np.random.default_rng(SEED)
    for _ in range(PICTURES):
        yield [draw.normal(0.0, SPREAD, (1, 224, 224, 3)).astype(np.float32)]


def main() -> None:
    keras.utils.set_random_seed(SEED)
    converter = tf.lite.TFLiteConverter.from_keras_model(keras.applications.ResNet50(weights=None))
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = pictures
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = converter.inference_output_type = tf.int8
    path = Path(sys.argv[1])
    part = path.with_name(f"part.{path.name}")
    part.write_bytes(converter.convert())
    part.replace(path)


if __name__ == "__main__":
    main()
