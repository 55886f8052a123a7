"""Names and paths that a stranger gives. A command in a process of its own: what it answers and tells, its deadline, and modules of the folder
that it works in."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.commands.confined import Confined, Finished, run_command
from toolchain.spec.errors import UserError


@pytest.fixture
def confined(tmp_path: Path) -> Confined:
    root = tmp_path / "root"
    (root / "own").mkdir(parents=True)
    (root / "own" / "m.yaml").write_text("")
    (tmp_path / "secret.yaml").write_text("")
    (root / "link.yaml").symlink_to(tmp_path / "secret.yaml")
    (root / "away").symlink_to(tmp_path)
    return Confined(root.resolve())


@pytest.mark.parametrize("text", ["vta", "vta:ultra96", "own/m.yaml", "own/../own/m.yaml:config", "none.yaml", "own"])
def test_names_and_paths_below_the_root_stay_as_they_are(confined: Confined, text: str) -> None:
    assert confined.word(text) == text


@pytest.mark.parametrize(
    "text", ["/etc/passwd", "../secret.yaml", "own/../../secret.yaml", "link.yaml", "link.yaml:pynq", "away/secret.yaml", "..", "/"]
)
def test_paths_that_lead_out_are_refused(confined: Confined, text: str) -> None:
    with pytest.raises(UserError, match=r"E0010 .* is outside the folder that is served"):
        confined.word(text)
    with pytest.raises(UserError, match="E0010"):
        confined.variables({"target": f"vta,{text}"})


@pytest.mark.parametrize("text", ["", "--json", "-o", "a\0b"])
def test_options_are_no_names(confined: Confined, text: str) -> None:
    with pytest.raises(UserError, match="E0002"):
        confined.word(text)


@given(st.lists(st.sampled_from(["..", ".", "a", "b:c", "", "root"]), min_size=1, max_size=6).map("/".join))
def test_whatever_passes_is_below_the_root(text: str) -> None:
    root = Path("/nowhere/root")
    try:
        word = Confined(root).word(text)
    except UserError:
        return
    assert (root / word).resolve().is_relative_to(root)


def test_elsewhere_paths_are_whole_and_names_stay(confined: Confined, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"target": "vta,own/m.yaml:c", "model": "own", "schedule": "own", "params": "A:1,B:2"}
    root = confined.root
    assert confined.absolute(given) == {"target": f"vta,{root}/own/m.yaml:c", "model": "own", "schedule": f"{root}/own", "params": "A:1,B:2"}
    monkeypatch.setenv("TILEWRIGHT_PATH", "/machines")
    assert confined.search_paths()["TILEWRIGHT_PATH"] == f"/machines:{root}/targets"


def _run(folder: Path, *words: str, seconds: float = 60) -> tuple[Finished, list[str]]:
    lines: list[str] = []

    async def say(line: str) -> None:
        lines.append(line)

    return asyncio.run(run_command(words, folder, seconds, say, {"TILEWRIGHT_PATH": ""})), lines


def test_answer_and_messages_are_apart(tmp_path: Path) -> None:
    (tmp_path / "toolchain.py").write_text("raise SystemExit('not this one')")
    (tmp_path / "bad.yaml").write_text("target: {name: x}\nbogus: 1\n")
    done, lines = _run(tmp_path, "target", "list")
    assert (done.code, done.told, lines) == (0, "", [])
    assert "\nvta [" in done.answer
    done, lines = _run(tmp_path, "target", "check", "bad.yaml")
    assert (done.code, done.answer) == (1, "")
    assert "bad.yaml:2:1: E0108 unknown key 'bogus'\nbogus: 1\n^\n" in done.told
    assert set(lines) == {"^"}  # the newest line of each part that the pipe brings, in however many it comes


def test_a_command_beyond_its_deadline_is_ended(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"E0011 'target list' was ended after 0.01 seconds; a longer --deadline gives it more"):
        _run(tmp_path, "target", "list", seconds=0.01)
