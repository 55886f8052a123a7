"""Files appear whole or not at all."""

import os
from pathlib import Path

import pytest

from toolchain.spec.errors import UserError
from toolchain.spec.files import is_file, is_folder, read_limited, require_writable, write_atomic


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

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(UserError, match="E0005 cannot write the file: No space left on device"):
        write_atomic(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_device_stays_a_device() -> None:
    with pytest.raises(UserError, match="/dev/full: E0005 cannot write the file: No space left on device"):
        write_atomic(Path("/dev/full"), b"new")
    assert Path("/dev/full").is_char_device()


def test_a_pipe_is_written_as_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    require_writable(path)
    write_atomic(path, b"new")
    assert os.read(reader, 9) == b"new"
    os.close(reader)
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "out.bin")
    write_atomic(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "out.bin").read_bytes() == b"new"


def test_what_cannot_be_written_is_known_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    require_writable(tmp_path / "new")
    require_writable(tmp_path / "file")
    for path, words in ((tmp_path, "Is a directory"), (tmp_path / "no" / "new", "No such file"), (tmp_path / "file" / "new", "Not a directory")):
        with pytest.raises(UserError, match=f"E0005 cannot write the file: {words}"):
            require_writable(path)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    with pytest.raises(UserError, match="Permission denied"):
        require_writable(tmp_path / "new")


def test_a_target_that_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError, match="E0005 cannot write the file: Is a directory"):
        write_atomic(tmp_path / "out", b"")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    with pytest.raises(UserError, match="E0005 cannot write the file"):
        write_atomic(Path("/"), b"")


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
