"""Operations of the toolchain and those that a machine's folder adds."""

import shutil
from pathlib import Path

import pytest

from tests.operations.test_kind_file import GOOD
from toolchain.operations.library import builtin_kinds, kind_named, kinds_of, kinds_with
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine

TARGETS = Path(__file__).resolve().parents[2] / "targets"


def test_a_folder_adds_operations_and_replaces_none(tmp_path: Path) -> None:
    (tmp_path / "double.yaml").write_text(GOOD)
    kinds = kinds_with(tmp_path)
    assert set(kinds) == {*builtin_kinds(), "double"}
    (tmp_path / "double.yaml").write_text(GOOD.replace("operation: double", "operation: add"))
    with pytest.raises(UserError, match="E1302 the toolchain has an operation 'add' already"):
        kinds_with(tmp_path)


def test_a_machine_brings_operations(tmp_path: Path) -> None:
    shutil.copy(TARGETS / "vta.yaml", tmp_path)
    shutil.copytree(TARGETS / "vta", tmp_path / "vta")
    (tmp_path / "vta" / "operations").mkdir()
    (tmp_path / "vta" / "operations" / "double.yaml").write_text(GOOD)
    assert "double" in kinds_of(load_machine(str(tmp_path / "vta.yaml")))
    assert kinds_of(load_machine("vta")) is builtin_kinds()


def test_an_unknown_name_gets_a_hint() -> None:
    with pytest.raises(UserError, match="E0107 unknown operation 'conv3d'; did you mean 'conv2d'"):
        kind_named(builtin_kinds(), "conv3d")
