"""models/real: every file is legal, names what its scripts make, and where its package is installed it loads and its samples fit."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from toolchain.models.files import cache_folder
from toolchain.models.load import load_model
from toolchain.models.samples import calibration_samples, labelled_samples
from toolchain.spec.errors import Source, UserError
from toolchain.spec.files import MODEL_SCHEMA
from toolchain.spec.schema import validate
from toolchain.spec.yaml_nodes import parse_yaml

FOLDER = Path(__file__).resolve().parents[2] / "models" / "real"
FILES = sorted(FOLDER.glob("*.yaml"))


@pytest.fixture(scope="module")
def prepare() -> Iterator[ModuleType]:
    """The script as a module; it needs Pillow, which the extra `real` brings."""
    pytest.importorskip("PIL")
    before = list(sys.path)
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module("prepare")
    sys.path[:] = before


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_file_is_legal_and_bears_its_name(path: Path) -> None:
    root = parse_yaml(Source(str(path), path.read_text()))
    validate(root, MODEL_SCHEMA)
    assert root.value["model"].text("name") == path.stem


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scripts_make_what_the_file_names(path: Path, prepare: ModuleType) -> None:
    for name in prepare.needed(path):
        known = prepare.SAMPLES if name.endswith(".npz") else prepare.EXPORTS
        assert name.startswith("real/")
        assert Path(name).stem in known


def test_what_a_package_lacks_is_told_and_not_made(prepare: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking() -> None:
        raise ImportError("No module named 'torch'")

    monkeypatch.setattr(prepare, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(prepare, "SAMPLES", {"none": lacking, "some": lambda: {"test": np.zeros(1)}})
    assert prepare.make("real/none.npz") == "real/none.npz: No module named 'torch'"
    assert prepare.make("real/some.npz") == ""
    assert [file.name for file in (tmp_path / "real").iterdir()] == ["some.npz"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_samples_fit_the_inputs(path: Path) -> None:
    if not (cache_folder() / "real").is_dir():
        pytest.skip("python models/real/prepare.py has not been run")
    try:
        model = load_model(str(path))
    except UserError as error:
        if error.diagnostics[0].code != "E0001":
            raise
        pytest.skip(str(error))
    tested = labelled_samples(model)
    assert tested is not None
    for samples in (calibration_samples(model), tested[0]):
        assert {name: array.shape[1:] for name, array in samples.items()} == dict(model.shapes)
        assert {name: str(array.dtype) for name, array in samples.items()} == {name: entry.dtype for name, entry in model.inputs.items()}
        assert all(len(array) >= 4 for array in samples.values())
