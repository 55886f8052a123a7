"""What a shell is answered: machines, models, variables and their values."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from toolchain.cli import main
from toolchain.commands.help import SHELLS, complete_machine, complete_variable, without_links
from toolchain.tasks.variables import VARIABLES

ROOT = Path(__file__).resolve().parents[2]


def test_variables_and_their_values() -> None:
    assert complete_variable("") == [f"{name}=" for name in VARIABLES]
    assert complete_variable("ta") == ["target="]
    assert complete_variable("target=dp") == ["target=dpuv3"]
    assert complete_variable("model=digits,resnet101") == ["model=digits,resnet101"]
    assert complete_variable("place=") == ["place=pays", "place=all", "place=least"]
    assert complete_variable("dim=") == complete_variable("nothing=") == []
    assert "vta" in complete_machine("v")


@pytest.mark.parametrize("code", ["E0501", "e0501"])
def test_a_code_is_explained(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", code]) == 0
    assert capsys.readouterr().out == without_links((ROOT / "docs" / "errors" / "E0501.md").read_text())


@pytest.mark.parametrize(
    ("page", "told"),
    [
        ("see [covers](../schedules.md#covers).", "see covers (docs/schedules.md)."),
        ("as [E0501](E0501.md) says", "as E0501 says"),
        ("`a[0](1)` stays", "`a[0](1)` stays"),
    ],
)
def test_a_terminal_follows_no_links(page: str, told: str) -> None:
    assert without_links(page) == told


def test_an_unknown_code_names_its_neighbours(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "E0507"]) == 1
    assert capsys.readouterr().err == "E0002 there is no error 'E0507'; near it are E0504, E0505, E0506\n"
    assert main(["help", "E99999999"]) == 1
    assert "near it are E15" in capsys.readouterr().err


def test_a_command_is_still_explained(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["help", "emulate"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("usage: tilewright emulate")


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "tilewright" in script
    assert script.startswith("#compdef") == (shell == "zsh")
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


@pytest.mark.parametrize(
    ("line", "answer"), [("tilewright veri", "verify "), ("tilewright build target=dpu", "dpuv3 "), ("tilewright target show vt", "vta ")]
)
def test_a_shell_asks(line: str, answer: str, tmp_path: Path) -> None:
    """As argcomplete's script does it: the line in the environment, the answer in a file."""
    out = tmp_path / "answer"
    asked = {"COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\v", "COMP_TYPE": "9"}
    words = {"_ARGCOMPLETE_COMP_WORDBREAKS": " \t\n\"'><=;|&(:", "_ARGCOMPLETE_STDOUT_FILENAME": str(out), "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-m", "toolchain.cli"], env=os.environ | asked | words, check=False, capture_output=True)
    assert out.read_text() == answer
