import hashlib
import os
from pathlib import Path

import pytest

from toolchain.tasks.receipts import Receipt, SeenFile, changed, code_hashes, digest_of, look, new_receipt, read_receipt, seen, write_receipt


def test_a_file_is_its_content(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"x" * 3_000_000)
    seen = look(file)
    assert seen is not None
    assert (seen.size, seen.digest) == (3_000_000, hashlib.sha256(b"x" * 3_000_000).hexdigest())


def test_a_file_that_looks_the_same_is_not_read_again(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"old")
    stat = file.stat()
    before = SeenFile(stat.st_size, stat.st_mtime_ns, "as it was")
    assert look(file, before) == before
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert look(file, before) != before


def test_no_file(tmp_path: Path) -> None:
    assert look(tmp_path / "none") is None


def test_a_folder_is_its_names(tmp_path: Path) -> None:
    empty = seen(tmp_path)
    (tmp_path / "a").write_bytes(b"1")
    held = seen(tmp_path)
    assert changed(empty) == [tmp_path]
    (tmp_path / "a").write_bytes(b"2")
    assert changed(held) == []
    (tmp_path / "a").rename(tmp_path / "b")
    assert changed(held) == [tmp_path]


def test_names_and_values_both_count() -> None:
    assert digest_of({"a": "1", "b": "2"}) == digest_of({"b": "2", "a": "1"})
    assert len({digest_of(parts) for parts in ({"a": "1"}, {"b": "1"}, {"a": "2"}, {}, {"\udcff": "1"})}) == 5


def test_libraries_count_by_their_version() -> None:
    found = code_hashes(["spec"], ["numpy"])
    assert set(found) == {"spec", "numpy"}
    assert len(found["spec"]) == 64
    assert found["numpy"][0].isdigit()


@pytest.fixture
def made(tmp_path: Path) -> Receipt:
    (tmp_path / "in").write_text("input")
    (tmp_path / "out").write_text("output")
    return new_receipt({"code": "1", "option": "2"}, seen(tmp_path / "in"), [tmp_path / "out"], tmp_path)


def test_nothing_changed(made: Receipt, tmp_path: Path) -> None:
    write_receipt(tmp_path / "receipt", made)
    assert read_receipt(tmp_path / "receipt") == made
    assert made.changes({"code": "1", "option": "2"}, tmp_path) == []


def test_every_change_is_named(made: Receipt, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("INPUT")
    (tmp_path / "out").unlink()
    assert made.changes({"code": "2", "new": "3"}, tmp_path) == ["code", "new", "option", str(tmp_path / "in"), str(tmp_path / "out")]


def test_the_same_bytes_at_another_time_are_no_change(made: Receipt, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("input")
    assert made.changes(made.parts, tmp_path) == []


def test_half_an_output_is_a_change(made: Receipt, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("out")
    assert made.changes(made.parts, tmp_path) == [str(tmp_path / "out")]


def test_the_result_is_what_was_written(made: Receipt, tmp_path: Path) -> None:
    assert made.result == new_receipt({}, {}, [tmp_path / "out"], tmp_path).result
    (tmp_path / "out").write_text("other")
    assert made.result != new_receipt({}, {}, [tmp_path / "out"], tmp_path).result


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"parts": {}, "read": {"a": 1}, "written": {}}', '{"parts": {}, "read": {}, "written": {"a": [1]}}']
)
def test_a_damaged_receipt_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "receipt").write_text(text)
    assert read_receipt(tmp_path / "receipt") is None


def test_an_output_that_was_not_written_is_our_mistake(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        new_receipt({}, {}, [tmp_path / "none"], tmp_path)


def test_a_file_whose_hash_is_known_is_not_read_again(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    plain = new_receipt({}, {}, [tmp_path / "b", tmp_path / "a"], tmp_path)
    assert new_receipt({}, {}, [tmp_path / "b", tmp_path / "a"], tmp_path, {tmp_path / "a": plain.written["a"].digest}) == plain
    other = new_receipt({}, {}, [tmp_path / "b", tmp_path / "a"], tmp_path, {tmp_path / "a": "00"})
    assert (other.written["a"].digest, other.written["b"]) == ("00", plain.written["b"])
    with pytest.raises(FileNotFoundError):
        new_receipt({}, {}, [tmp_path / "none"], tmp_path, {tmp_path / "none": "00"})
