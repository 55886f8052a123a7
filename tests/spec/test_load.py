"""Finding machines by name and path, and files that cannot be read.

What a file assumes is listed with its place.
"""

from pathlib import Path

import pytest

from tests.spec.small import GOOD, nodes, small
from toolchain.spec.errors import UserError
from toolchain.spec.load import assumptions, find_target, list_targets, load_file, load_machine


def test_every_form_of_the_mark() -> None:
    text = (
        "assumptions: [first]\na: {assumed: true, source: why, value: 3}\nb: [{assumed: because}]\n"
        "c: {assumed: [one, two]}\nd: {assumed: false}\ne: {assumed: {assumed: true}}\nf: {g: {assumed: true, doc: note}}\nh: {assumed: true}\n"
    )
    assert assumptions(nodes(text)) == ("first", "a = 3: why", "b.0: because", "c: one", "c: two", "e.assumed", "f.g: note", "h")


def test_of_a_machine() -> None:
    assert small().assumptions == ("timing.constants.START = 8: a guess",)


def test_a_folder_on_the_path_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "small.yaml").write_text(GOOD)
    monkeypatch.setenv("TILEWRIGHT_PATH", str(tmp_path))
    assert find_target("small") == tmp_path / "small.yaml"
    assert load_machine("small:wide").params["LANES"] == 8
    assert load_machine(str(tmp_path / "small.yaml"), "wide").params["LANES"] == 8


def test_machines_of_the_package_are_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TILEWRIGHT_PATH", raising=False)
    assert list_targets()


def test_unknown_name_has_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "small.yaml").write_text(GOOD)
    monkeypatch.setenv("TILEWRIGHT_PATH", str(tmp_path))
    with pytest.raises(UserError, match="E0001 unknown target 'smal'; did you mean 'small'"):
        load_machine("smal")


@pytest.mark.parametrize(("data", "message"), [(b"\xff\xfe", "not UTF-8 text at byte 0x0"), (b"#" * (5 << 20), "larger than")])
def test_unreadable(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "m.yaml"
    path.write_bytes(data)
    with pytest.raises(UserError, match=message):
        load_file(path)


def test_missing_and_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(UserError, match="E0001 cannot read the machine file"):
            load_file(path)


def test_a_name_that_is_too_long_for_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="E0001 there is no machine file 'a"):
        find_target("a" * 5000 + "/x.yaml")
    monkeypatch.setenv("TILEWRIGHT_PATH", "a" * 5000)
    assert list_targets()


def test_the_same_text_and_parameters_give_the_same_object() -> None:
    """Whatever is derived from a machine is kept with the object."""
    vta = load_machine("vta")
    assert load_machine("vta") is vta
    assert load_machine("vta", overrides={"LOG_DRAM": "20"}) is not vta
