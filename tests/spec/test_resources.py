"""The hash of a package's code: what is kept of it is made anew after any change."""

from pathlib import Path

from toolchain.spec.resources import package_hash


def test_every_source_counts_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "a.py").write_text("1")
    seen = {package_hash(tmp_path)}
    for name, text in (("a.py", "2"), ("inner/b.j2", ""), ("inner/c.yaml", "x")):
        (tmp_path / name).write_text(text)
        seen.add(package_hash(tmp_path))
    assert len(seen) == 4
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.py").write_text("")
    (tmp_path / "note.txt").write_text("")
    assert package_hash(tmp_path) in seen


def test_a_file_with_another_name_is_another_package(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1")
    before = package_hash(tmp_path)
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    assert package_hash(tmp_path) != before
