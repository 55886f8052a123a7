"""Where external data may be: inside the model's folder, in files that are files. test_load.py has what a model's entries are refused for."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.onnx_builder import model, save
from toolchain.graph.files.external_data import check_constants, check_external
from toolchain.spec.errors import UserError


def tensor(**entries: str) -> onnx.TensorProto:
    """Of 4 floats."""
    found = onnx.TensorProto(name="w", dims=[4], data_type=1, data_location=onnx.TensorProto.EXTERNAL)
    for key, value in entries.items():
        found.external_data.add(key=key, value=value)
    return found


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 40), st.integers(0, 60), st.booleans())
def test_exactly_what_lies_in_the_file(tmp_path_factory: pytest.TempPathFactory, offset: int, size: int, length: bool) -> None:
    folder = tmp_path_factory.mktemp("e")
    (folder / "deep").mkdir()
    (folder / "deep" / "w.bin").write_bytes(bytes(size))
    entries = {"location": "deep/w.bin", "offset": str(offset)} | ({"length": "16"} if length else {})
    if offset + 16 <= size:
        assert check_external("w", tensor(**entries), folder / "net.onnx") == ("deep/w.bin", offset, 16)
    else:
        with pytest.raises(UserError, match=r"E0902 external data of tensor 'w': bytes .* are past the end"):
            check_external("w", tensor(**entries), folder / "net.onnx")


def test_a_whole_file_without_an_offset(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(np.zeros(4, np.float32).tobytes())
    assert check_external("w", tensor(location="w.bin"), tmp_path / "net.onnx") == ("w.bin", 0, 16)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(["..", ".", "a", "", "C:", "w.bin", "\\", "\0"]), min_size=1, max_size=4))
def test_no_path_leads_out(tmp_path_factory: pytest.TempPathFactory, parts: list[str]) -> None:
    folder = tmp_path_factory.mktemp("e") / "inside"
    folder.mkdir()
    (folder.parent / "w.bin").write_bytes(bytes(16))
    with pytest.raises(UserError, match="E0902"):
        check_external("w", tensor(location="/".join(parts)), folder / "net.onnx")


def test_constants_of_a_model(tmp_path: Path) -> None:
    proto = model([onnx.helper.make_node("Add", ["x", "w"], ["y"])], {"x": [4]}, {"y": None})
    proto.graph.initializer.append(tensor(location="none.bin"))
    with pytest.raises(UserError, match=r"E0902 external data of tensor 'w': cannot read 'none.bin': No such file"):
        check_constants(proto, save(proto, tmp_path))
    proto.graph.initializer[0].CopyFrom(onnx.TensorProto(name="w", dims=[4], data_type=1, raw_data=bytes(15)))
    with pytest.raises(UserError, match="E0901 the constant 'w' of shape 4 does not hold as many values"):
        check_constants(proto, save(proto, tmp_path))
