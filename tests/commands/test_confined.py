"""Names and paths that a stranger gives."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.commands.confined import Confined
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
