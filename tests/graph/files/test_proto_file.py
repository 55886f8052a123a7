"""Bytes that are no model are told in one line; a model is read as it is stored."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.onnx_builder import conv_net, save
from toolchain.graph.files.proto_file import read_proto
from toolchain.spec.errors import UserError


def test_a_model_is_read_as_it_is(tmp_path: Path) -> None:
    proto = conv_net()
    assert read_proto(save(proto, tmp_path)).SerializeToString() == proto.SerializeToString()


@settings(max_examples=35, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("b") / "net.onnx"
    path.write_bytes(data)
    with pytest.raises(UserError) as caught:
        read_proto(path)
    assert str(caught.value).startswith(f"{path}: E0901 ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m.ClearField("ir_version"), "names no IR version"),
        (lambda m: m.ClearField("opset_import"), "no operator set"),
        (lambda m: m.graph.ClearField("node"), "no nodes"),
        (lambda m: m.graph.ClearField("output"), "no outputs"),
    ],
)
def test_what_every_model_has(change: object, words: str, tmp_path: Path) -> None:
    proto = conv_net()
    change(proto)  # type: ignore[operator]
    with pytest.raises(UserError, match=f"E0901.*{words}"):
        read_proto(save(proto, tmp_path))


def test_names_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(conv_net().SerializeToString().replace(b"conv1", b"con\xff1"))
    with pytest.raises(UserError, match="E0901"):
        read_proto(path)
