"""docs/models.md explains every key of the language, and its examples work."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_machine_description import keys
from toolchain.models.load import load_text
from toolchain.models.model import Layered
from toolchain.spec.errors import Source
from toolchain.spec.files import MODEL_SCHEMA
from toolchain.spec.schema import read_schema, validate
from toolchain.spec.yaml_nodes import parse_yaml

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "models.md").read_text()
YAML = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.M | re.S)
PYTHON = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)


@pytest.mark.parametrize("key", sorted(keys(read_schema(MODEL_SCHEMA))))
def test_every_key_is_explained(key: str) -> None:
    assert re.search(rf"`[^`]*\b{key}\b[^`]*`|^\s*(- )?(\{{ ?)?.*\b{key}:", PAGE, re.M), key


def test_the_first_example_is_a_network() -> None:
    origin = load_text(YAML[0], Path("example.yaml")).origin
    assert isinstance(origin, Layered)
    assert origin.network.layers[-1].shape == (1, 10)
    assert {"features.0/conv", "features.0/conv2", "features.0/conv.norm", "features.0/conv.relu"} <= {layer.name for layer in origin.network.layers}


def test_the_encoder_is_that_of_the_models() -> None:
    (encoder,) = (text for text in YAML if text.startswith("blocks:\n  encoder:"))
    assert encoder in (ROOT / "models" / "bert_128.yaml").read_text()


def test_the_pointer_is_legal() -> None:
    (pointer,) = (text for text in YAML if "onnx: mine.onnx" in text)
    validate(parse_yaml(Source("mine.yaml", pointer)), MODEL_SCHEMA)


def test_the_python_lines_run(tmp_path: Path) -> None:
    text = PYTHON[0].replace("resnet50", "squeezenet")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", f"{text}\nassert path.is_file() and samples.shape[0] == 8"], check=True, cwd=tmp_path, env=environment)
    assert [path.name for path in (tmp_path / "build" / "squeezenet").glob("*.onnx")] == ["squeezenet.onnx"]
