import hashlib
import os
from pathlib import Path

from toolchain.tasks.hashes import Seen, digest_of, look


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
    before = Seen(stat.st_size, stat.st_mtime_ns, "as it was")
    assert look(file, before) == before
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert look(file, before) != before


def test_no_file(tmp_path: Path) -> None:
    assert look(tmp_path / "none") is None
    assert look(tmp_path) is None


def test_names_and_values_both_count() -> None:
    assert digest_of({"a": "1", "b": "2"}) == digest_of({"b": "2", "a": "1"})
    assert len({digest_of(parts) for parts in ({"a": "1"}, {"b": "1"}, {"a": "2"}, {}, {"\udcff": "1"})}) == 5
