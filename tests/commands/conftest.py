"""The studio's page that several modules open."""

from pathlib import Path

import pytest

from tests.docs.console_blocks import files_of
from toolchain.cli import main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "your-first-machine.md"


@pytest.fixture(scope="package")
def studio_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of digits on the tutorial's machine, below the folder that it was built in."""
    folder = tmp_path_factory.mktemp("studio")
    for name, text in files_of(PAGE.read_text()).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["studio", "toy", "digits"]) == 0
    return folder / "build" / "toy" / "digits" / "studio.html"
