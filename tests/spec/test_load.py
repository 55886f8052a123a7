"""Parameters: defaults, configurations, overrides as text.

Finding machines by name and path, and files that cannot be read.

What a file assumes is listed with its place.
"""

from pathlib import Path

import pytest

from tests.spec.small import GOOD, nodes, small
from toolchain.spec.errors import UserError
from toolchain.spec.load import assumptions, find_target, list_targets, load_file, load_machine


def test_default_configuration_and_override() -> None:
    assert small().params == {"LANES": 4, "MODE": 0, "HALF": 2}
    assert small(config="wide").params == {"LANES": 8, "MODE": 1, "HALF": 4}
    assert small(config="wide", overrides={"LANES": "1 << 1", "MODE": "fast"}).params == {"LANES": 2, "MODE": 0, "HALF": 1}


def test_a_parameter_may_rest_on_an_earlier_one() -> None:
    machine = small(("  MODE: {value: fast", "  TWICE: {value: LANES * 2, range: [LANES, 99]}\n  MODE: {value: fast"), overrides={"LANES": "6"})
    assert machine.params["TWICE"] == 12


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"LANES": "17"}, "parameters:1:7: E0105 LANES = 17 is outside 1..16\nLANES=17\n      ^"),
        ({"LANES": "2 +"}, "parameters:1:7: E0120 cannot read the expression '2 +'\nLANES=2 +\n      ^"),
        ({"LANES": "many"}, "parameters:1:7: E0107 unknown name 'many'\nLANES=many\n      ^"),
        ({"MODE": "fats"}, "parameters:1:6: E0105 MODE is one of fast, exact, not 'fats'; did you mean 'fast'?\nMODE=fats\n     ^"),
        ({"LANE": "1"}, "E0104 unknown parameter 'LANE'; did you mean 'LANES'?"),
        ({"LANES": ""}, "parameters:1:7: E0120 cannot read the expression ''\nLANES=\n      ^"),
        ({"LANES": "5"}, "small.yaml:8:12: E0106 an odd number of lanes\n  - {that: LANES % 2 == 0, message: an odd number of lanes}\n           ^"),
    ],
)
def test_bad_overrides(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UserError) as caught:
        small(overrides=overrides)
    assert str(caught.value) == message


def test_unknown_configuration() -> None:
    with pytest.raises(UserError, match="E0104 unknown configuration 'wild'; did you mean 'wide'"):
        small(config="wild")


def test_every_configuration_is_checked() -> None:
    with pytest.raises(UserError, match=r"E0104 unknown parameter 'LANE'"):
        small(("wide: {LANES: 8, MODE: exact}", "wide: {LANE: 8}"))


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
