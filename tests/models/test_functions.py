"""Libraries of functions in ONNX's text form, calls of them, and their mistakes."""

from pathlib import Path

import pytest

from toolchain.models.expand import Network
from toolchain.models.load import load_text
from toolchain.models.model import Layered
from toolchain.models.operators import Call
from toolchain.spec.errors import UserError

HEAD = "model: {name: small, summary: a test}\ninputs: {image: [1, 4, 12, 10]}\nfunctions: own.txt\nlayers:\n"
OPENING = '<opset_import: ["": 21], domain: "local">\n'
LIBRARY = f"""# two functions
{OPENING}scale <by> (x) => (y) {{ k = Constant <value_float: float = @by> () y = Mul (x, k) }}
{OPENING}both (x, z) => (y, w) {{ y = Add (x, z) w = Sub (x, z) }}
{OPENING}sum (x, z) => (y) {{ y = Add (x, z) }}
"""


def network(folder: Path, layers: str, library: str = LIBRARY) -> Network:
    (folder / "own.txt").write_text(library)
    origin = load_text(HEAD + layers, folder / "small.yaml").origin
    assert isinstance(origin, Layered)
    return origin.network


def said(folder: Path, layers: str, library: str = LIBRARY) -> str:
    with pytest.raises(UserError) as caught:
        network(folder, layers, library)
    (found,) = caught.value.diagnostics
    return found.headline().replace(f"{folder}/", "")


def test_a_call_knows_the_sizes_where_it_stands(tmp_path: Path) -> None:
    call = "  - call: {function: scale, with: {by: 2.0}, shape: [1, channels, height * width]}\n"
    (layer,) = network(tmp_path, call).layers
    assert (layer.inputs, layer.shape) == (("image",), (1, 4, 120))
    assert layer.operator == Call("scale", (("by", 2.0),), (1, 4, 120), LIBRARY)


def test_attributes_are_whole_real_or_lists(tmp_path: Path) -> None:
    library = f"{OPENING}f <a, b, c, d> (x) => (y) {{ y = Identity (x) }}"
    (layer,) = network(
        tmp_path, "  - call: {function: f, with: {a: 2 * channels, b: 0.5, c: [1, height], d: [1, 2.5]}, shape: [1]}\n", library
    ).layers
    assert isinstance(layer.operator, Call)
    assert dict(layer.operator.attributes) == {"a": 8, "b": 0.5, "c": (1, 12), "d": (1.0, 2.5)}


def test_operands_are_results_or_lists_of_layers(tmp_path: Path) -> None:
    found = network(tmp_path, "  - relu\n  - call: {function: sum, of: [image, [relu6: ]], shape: [1, 4, 12, 10]}\n")
    assert found.layers[-1].inputs == ("image", "relu6")


CALLS = {
    "scael, with: {by: 2.0}": "small.yaml:5:5: E0814 there is no function 'scael'; did you mean 'scale'?",
    "sum": "small.yaml:5:5: E0814 'sum' has 2 operands and 1 results; a call with 1 and one result does not fit",
    "both, of: [image, image]": "small.yaml:5:5: E0814 'both' has 2 operands and 2 results; a call with 2 and one result does not fit",
    "scale": "small.yaml:5:5: E0814 'scale' has the attributes by; given are none",
    "scale, with: {bye: 1}": "small.yaml:5:5: E0814 'scale' has the attributes by; given are bye",
}


@pytest.mark.parametrize("call", CALLS)
def test_calls_that_do_not_fit(call: str, tmp_path: Path) -> None:
    assert said(tmp_path, f"  - call: {{function: {call}, shape: [1]}}\n") == CALLS[call]


LIBRARIES = {
    f"{OPENING}f (x) => (y) {{ y = Relu x }}": "own.txt:2:25: E0813 Expected character ( not found.",
    OPENING.replace("local", "x") + "f (x) => (y) { y = Relu (x) }": "own.txt: E0813 the function 'f' is of the domain 'x'; write domain: \"local\"",
    "{" * 40: "own.txt: E0813 graphs nest deeper than 32",
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_libraries_that_cannot_be_read(library: str, tmp_path: Path) -> None:
    assert said(tmp_path, "  - call: {function: f, shape: [1]}\n", library) == LIBRARIES[library]


def test_a_library_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_bytes(b"abc\xff")
    with pytest.raises(UserError, match="E0813 the file is not UTF-8 text at byte 0x3"):
        load_text(HEAD + "  - relu\n", tmp_path / "small.yaml")


def test_a_library_that_is_not_there_or_not_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="E0001 there is no file"):
        load_text(HEAD + "  - relu\n", tmp_path / "small.yaml")
    with pytest.raises(UserError, match="E0814 the model's file names no library of functions; functions: FILE"):
        load_text(HEAD.replace("functions: own.txt\n", "") + "  - call: {function: f, shape: [1]}\n", tmp_path / "small.yaml")
