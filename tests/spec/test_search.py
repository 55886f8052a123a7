"""Machines and models that other installed packages bring: found by name, as a whole, and never in silence over another package's."""

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
from toolchain.spec.load import find_target, list_targets, load_machine
from toolchain.spec.search import search_path

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
    program = "import sys; sys.path.insert(0, sys.argv[1]); from toolchain.spec.search import search_path; print(search_path('targets'))"
    program += "; print('importlib.metadata' in sys.modules)"
    for place, asked in ((archive, True), (str(tmp_path), False)):
        done = subprocess.run(
            [sys.executable, "-c", program, place], env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
        )
        assert done.stdout.splitlines()[1] == str(asked), "short commands ask for entry points only where there may be some"
