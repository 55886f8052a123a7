"""Files appear whole or not at all."""

from pathlib import Path

import pytest

from toolchain.spec.errors import UserError
from toolchain.spec.files import is_file, is_folder, read_limited, write_atomic


def test_a_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "out.bin"
    write_atomic(path, b"old")
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.bin"
    path.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(UserError, match="E0005 cannot write the file: No space left on device"):
        write_atomic(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_target_that_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError, match="E0005 cannot write the file: Is a directory"):
        write_atomic(tmp_path / "out", b"")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_reading_stops_at_the_limit(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"four")
    assert read_limited(tmp_path / "in", 4, "the table") == b"four"
    with pytest.raises(UserError, match="E0330 the table is larger than 3 bytes"):
        read_limited(tmp_path / "in", 3, "the table")
    with pytest.raises(UserError, match="E0001 cannot read the table: No such file"):
        read_limited(tmp_path / "none", 3, "the table")


def test_a_path_that_the_system_refuses_is_not_there(tmp_path: Path) -> None:
    assert is_folder(tmp_path)
    assert not is_file(tmp_path)
    assert not is_file(tmp_path / ("a" * 5000))
    assert not is_folder(tmp_path / ("a" * 5000))
