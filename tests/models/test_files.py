"""Files that a model's file names: beside it, in a package, in the cache; where one is missing the message says how to get it."""

from pathlib import Path

import pytest

from toolchain.models.files import cache_folder, find_model, named_file, present_file
from toolchain.spec.errors import Source, UserError
from toolchain.spec.yaml_nodes import Node, parse_yaml


def node(text: str) -> Node:
    return parse_yaml(Source("m.yaml", f"onnx: {text}")).value["onnx"]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path / "cache" / name))


def test_a_text_is_a_file_beside_the_model(tmp_path: Path) -> None:
    assert named_file(node("sub/net.onnx"), tmp_path / "m.yaml") == tmp_path / "sub" / "net.onnx"


def test_a_file_in_a_package() -> None:
    import onnx

    assert named_file(node("{package: onnx, file: helper.py}"), Path("m.yaml")) == Path(onnx.__file__).with_name("helper.py")


def test_a_file_in_the_cache() -> None:
    assert named_file(node("{cache: real/net.onnx, script: make.py}"), Path("m.yaml")) == cache_folder() / "real" / "net.onnx"


def test_a_package_that_is_not_there_is_told_with_the_command() -> None:
    with pytest.raises(UserError, match=r"m\.yaml:1:17: E0001 the package 'no_such_thing' is not installed") as caught:
        named_file(node("{package: no_such_thing, file: a.onnx}"), Path("m.yaml"))
    assert caught.value.diagnostics[0].hint == "pip install no-such-thing"


def test_a_file_that_a_script_makes_is_told_with_the_command(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="E0001 there is no file") as caught:
        present_file(node("{cache: real/net.onnx, script: make.py}"), tmp_path / "net.yaml")
    assert caught.value.diagnostics[0].hint == f"python {tmp_path / 'make.py'} net"


@pytest.mark.parametrize("text", ["{cache: ../secret, script: make.py}", "{cache: /etc/passwd, script: make.py}", "{package: onnx, file: ../a.onnx}"])
def test_names_that_leave_their_folder_are_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"E0116 '.*' leaves its folder"):
        named_file(node(text), Path("m.yaml"))


def test_a_model_in_a_folder_is_found_by_both_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEWRIGHT_MODELS", str(tmp_path / "mine"))
    (tmp_path / "mine" / "group").mkdir(parents=True)
    (tmp_path / "mine" / "group" / "net.yaml").write_text("")
    assert find_model("group/net") == tmp_path / "mine" / "group" / "net.yaml"
    with pytest.raises(UserError, match="E0001 there is no model file 'group/other'"):
        find_model("group/other")
