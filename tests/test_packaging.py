"""The wheel, built from the source distribution, works away from the checkout."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def _run(*arguments: str, cwd: Path, **environment: str) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=cwd, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_installed_wheel_finds_its_machines_and_models(tmp_path: Path) -> None:
    _run("-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(ROOT), cwd=tmp_path)
    assert len(list(tmp_path.glob("*.tar.gz"))) == 1
    (wheel,) = tmp_path.glob("*.whl")
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    with zipfile.ZipFile(wheel) as archive:  # of Python alone: unpacking is all that an installation does for imports, and needs no pip
        assert "Root-Is-Purelib: true" in archive.read(next(name for name in archive.namelist() if name.endswith(".dist-info/WHEEL"))).decode()
        assert not [name for name in archive.namelist() if ".data/" in name]
        archive.extractall(site)
    listed = _run("-P", "-c", "from toolchain.cli import main; main(['target', 'list'])", cwd=elsewhere, PYTHONPATH=str(site))
    named = {line.partition(":")[0].split()[0] for line in listed.splitlines()}
    assert named == {path.stem for path in (ROOT / "targets").glob("*.yaml")}
    models = _run(
        "-P",
        "-c",
        "from toolchain.models.load import *; print([load_model(name).name for name in list_models()])",
        cwd=elsewhere,
        PYTHONPATH=str(site),
    )
    assert models.strip() == str(sorted(path.stem for path in (ROOT / "models").glob("*.yaml")))
    manual = _run("-P", "-c", "from toolchain.cli import main; main(['target', 'manual', 'vta'])", cwd=elsewhere, PYTHONPATH=str(site))
    assert manual.startswith("# vta: instruction set manual")
    for words in (["verify", "target=vta", "model=digits", "place=all"], ["studio", "vta", "digits", "place=all", "-o", "page.html"]):
        assert _run("-P", "-c", f"import sys; from toolchain.cli import main; sys.exit(main({words}))", cwd=elsewhere, PYTHONPATH=str(site))
    assert (elsewhere / "page.html").read_text().endswith("</html>\n")
    shutil.copy(elsewhere / "build" / "vta" / "digits@place-all" / "bundle" / "digits.bundle", moved := elsewhere / "moved.bundle")
    run = f"import numpy, toolchain; print(toolchain.load({str(moved)!r}).run({{'image': numpy.zeros((1, 1, 8, 8), 'f4')}})['logits'].shape)"
    assert _run("-P", "-c", run, cwd=elsewhere, PYTHONPATH=str(site)) == "(1, 10)\n"
    schema = _run("-P", "-c", "from toolchain.cli import main; main(['schema', 'target'])", cwd=elsewhere, PYTHONPATH=str(site))
    assert Path(schema.strip()).is_relative_to(site)
    assert Path(schema.strip()).is_file()
    page = _run("-P", "-c", "from toolchain.cli import main; main(['help', 'E0501'])", cwd=elsewhere, PYTHONPATH=str(site))
    assert page == (ROOT / "docs" / "errors" / "E0501.md").read_text()
