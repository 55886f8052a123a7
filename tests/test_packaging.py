"""The wheel, built from the source distribution, works away from the checkout."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ANSWERS = """
from toolchain.cli import main
from toolchain.models.load import list_models, load_model
for ask in (
    lambda: main(["target", "list"]), lambda: print([load_model(name).name for name in list_models()]), lambda: main(["target", "manual", "vta"]),
    lambda: main(["schema", "target"]), lambda: main(["help", "E0501"]),
):
    ask()
    print(end="\\f")
"""
BUILDS = """
import sys
from toolchain.cli import main
WORDS = ["place=all", "effort=0"]
sys.exit(main(["verify", "target=vta", "model=digits", *WORDS]) or main(["studio", "vta", "digits", *WORDS, "-o", "page.html"]))
"""


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
    listed, models, manual, schema, page = _run("-P", "-c", ANSWERS, cwd=elsewhere, PYTHONPATH=str(site)).split("\f")[:5]
    named = {line.partition(":")[0].split()[0] for line in listed.splitlines()}
    assert named == {path.stem for path in (ROOT / "targets").glob("*.yaml")}
    assert models.strip() == str(sorted(path.stem for path in (ROOT / "models").glob("*.yaml")))
    assert manual.startswith("# vta: instruction set manual")
    assert Path(schema.strip()).is_relative_to(site)
    assert Path(schema.strip()).is_file()
    assert page == (ROOT / "docs" / "errors" / "E0501.md").read_text()
    assert _run("-P", "-c", BUILDS, cwd=elsewhere, PYTHONPATH=str(site))
    assert (elsewhere / "page.html").read_text().endswith("</html>\n")
    (bundle,) = (elsewhere / "build" / "vta").rglob("digits.bundle")
    shutil.copy(bundle, moved := elsewhere / "moved.bundle")
    run = f"import numpy, toolchain; print(toolchain.load({str(moved)!r}).run({{'image': numpy.zeros((1, 1, 8, 8), 'f4')}})['logits'].shape)"
    assert _run("-P", "-c", run, cwd=elsewhere, PYTHONPATH=str(site)) == "(1, 10)\n"
