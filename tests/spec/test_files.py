"""Files appear whole or not at all.

The hash of a package's code: what is kept of it is made anew after any change.

Machines and models that other installed packages bring: found by name, as a whole, and never in silence over another package's.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spec.small import GOOD
from toolchain.models.files import find_model
from toolchain.models.load import load_model
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.spec.errors import UserError
from toolchain.spec.files import contents, is_file, is_folder, package_hash, read_limited, require_writable, search_path, write_atomic
from toolchain.spec.load import find_target, list_targets, load_machine


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


def test_states_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files are told apart by their bytes, large ones by their stamps; anything but a file is nothing."""
    monkeypatch.setattr("toolchain.spec.files.WHOLE", 4)
    assert contents(None) == contents(tmp_path) == ()
    small, large = tmp_path / "a" / "small", tmp_path / "large"
    small.parent.mkdir()
    small.write_bytes(b"1234")
    large.write_bytes(b"12345")
    os.mkfifo(tmp_path / "pipe")
    found = contents(tmp_path)
    assert [name for name, _ in found] == [str(small), str(large)]
    assert found[0][1] == b"1234"
    os.utime(small, (0, 0))
    assert contents(tmp_path) == found
    small.write_bytes(b"4321")
    assert contents(tmp_path)[0][1] == b"4321"
    os.utime(large, (0, 0))
    assert contents(tmp_path)[1] != found[1]


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


ROOT = Path(__file__).resolve().parents[2]
MACHINES = Path(__file__).resolve().parents[1] / "data" / "machines"
MODEL = "model: {name: tiny, summary: a test}\ninputs: {image: [1, 4, 8, 8]}\nlayers: [relu]\n"


def install(site: Path, name: str) -> Path:
    """A package as pip leaves it, with an entry point for each kind of folder. The answer is its own folder."""
    package, about = site / name, site / f"{name}-1.0.dist-info"
    for folder in (package / "machines", package / "networks", about):
        folder.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('a package of machines is not imported')\n")
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        f"[tilewright.targets]\nmachines = {name}.machines\n\n[tilewright.models]\nnetworks = {name}.networks\nnothing = no-such-package\n"
    )
    return package


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


def test_a_packages_machine_comes_with_its_kernels(site: Path) -> None:
    machines = install(site, "acme") / "machines"
    shutil.copy(MACHINES / "systolic.yaml", machines / "acme1.yaml")
    (machines / "acme1.yaml").write_text((MACHINES / "systolic.yaml").read_text().replace("name: systolic", "name: acme1"))
    shutil.copytree(MACHINES / "systolic", machines / "acme1")
    assert list_targets()["acme1"] == find_target("acme1") == machines / "acme1.yaml"
    machine = load_machine("acme1")
    assert load_kernels(machine)
    assert search_path("targets")[-1] == machines


def test_a_packages_model(site: Path) -> None:
    networks = install(site, "acme") / "networks"
    (networks / "tiny.yaml").write_text(MODEL)
    assert find_model("tiny") == networks / "tiny.yaml"
    assert load_model("tiny").summary == "a test"


def test_a_name_of_two_packages_is_no_ones(site: Path) -> None:
    first, second = (install(site, name) / "machines" / "small.yaml" for name in ("acme", "bell"))
    for path in (first, second):
        path.write_text(GOOD)
    with pytest.raises(UserError) as caught:
        load_machine("small")
    told = f"E0006 several installed packages have 'small' in their targets: {first}, {second}; give the path of one of the files"
    assert str(caught.value) == told
    assert load_machine(str(second)).name == "small"


def test_nor_is_a_name_that_the_toolchain_has_itself(site: Path) -> None:
    package = install(site, "acme")
    (package / "machines" / "vta.yaml").write_text(GOOD)
    (package / "networks" / "digits.yaml").write_text(MODEL)
    with pytest.raises(UserError, match="E0006 several installed packages have 'vta' in their targets"):
        find_target("vta")
    with pytest.raises(UserError, match="E0006 several installed packages have 'digits' in their models"):
        find_model("digits")


def test_the_users_own_folder_decides(site: Path) -> None:
    for name in ("acme", "bell"):
        (install(site, name) / "machines" / "small.yaml").write_text(GOOD)
    own = Path("targets") / "small.yaml"
    own.parent.mkdir()
    own.write_text(GOOD)
    assert find_target("small") == own


def test_a_package_in_an_archive_is_found_too(tmp_path: Path, site: Path) -> None:
    install(site, "acme")
    archive = shutil.make_archive(str(tmp_path / "packed"), "zip", site)
    program = "import sys; sys.path.insert(0, sys.argv[1]); from toolchain.spec.files import search_path; print(search_path('targets'))"
    program += "; print('importlib.metadata' in sys.modules)"
    for place, asked in ((archive, True), (str(tmp_path), False)):
        done = subprocess.run(
            [sys.executable, "-c", program, place], env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
        )
        assert done.stdout.splitlines()[1] == str(asked), "short commands ask for entry points only where there may be some"
