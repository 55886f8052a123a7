"""Points and their numbers, and the order in which searches take them.

Studies from files and words, and their mistakes at their places.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.explore.studies import STUDY
from tests.operations.made import load_machine
from toolchain.explore.study import Axis, Study, axis_of, check_study, point_text, read_study
from toolchain.spec.errors import UserError

sizes = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@given(sizes, st.data())
def test_a_number_names_a_point(counts: list[int], data: st.DataObject) -> None:
    study = Study("m", (), tuple(Axis(f"A{place}", tuple(map(str, range(count)))) for place, count in enumerate(counts)))
    number = data.draw(st.integers(0, study.size - 1))
    assert study.number(study.point(number)) == number
    assert len({study.point(each) for each in range(study.size)}) == study.size


@given(st.integers(1, 10), st.integers(0, 5), st.sampled_from(["grid", "random"]))
def test_a_queue_has_different_points_within_the_budget_and_begins_as_shipped(budget: int, seed: int, search: str) -> None:
    study = replace(STUDY, budget=budget, seed=seed, search=search)
    points = list(study.queue())
    assert len(points) == len(set(points)) == min(budget, study.size)
    assert points[0] == ("2", "8")
    assert points == list(study.queue())


def test_a_small_grid_is_spread() -> None:
    study = replace(STUDY, budget=3, start=None)
    assert list(study.queue()) == [("1", "8"), ("2", "8"), ("4", "8")]


def test_another_budget_is_the_same_study_and_other_values_are_not() -> None:
    assert replace(STUDY, budget=3).digest == STUDY.digest
    assert replace(STUDY, seed=3).digest != STUDY.digest
    assert replace(STUDY, axes=STUDY.axes[:1]).digest != STUDY.digest


def test_a_point_in_words() -> None:
    assert point_text(STUDY, ("4", "16")) == "SIZE=4 BUS=16"


TEXT = """explore:
  machine: vta
  models: [digits, nets/mine.onnx]
  objectives: [ms, area]
  search: bayes
  budget: 30
  seed: 7
  verify: false
vary:
  LOG_BLOCK: 3..5
  SHR: [full, signed5]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "study.yaml"
    path.write_text(text)
    return path


def told(folder: Path, text: str) -> str:
    with pytest.raises(UserError) as caught:
        check_study(read_study(written(folder, text)), [load_machine("vta")])
    return str(caught.value).removeprefix(f"{folder}/")


def test_a_file_with_everything(tmp_path: Path) -> None:
    study = read_study(written(tmp_path, TEXT))
    assert study == Study(
        "vta", ("digits", f"{tmp_path}/nets/mine.onnx"), (Axis("LOG_BLOCK", ("3", "4", "5")), Axis("SHR", ("full", "signed5"))),
        ("ms", "area"), "bayes", 30, 7, "no",
    )  # fmt: skip
    check_study(study, [load_machine("vta")])


def test_what_a_file_leaves_out(tmp_path: Path) -> None:
    study = read_study(written(tmp_path, "explore: {machine: own/m.yaml}\nvary: {A: [1]}\n"))
    assert (study.machine, study.objectives, study.search, study.budget, study.verify) == (f"{tmp_path}/own/m.yaml", ("ms",), "grid", 200, "all")


@pytest.mark.parametrize(("word", "verify"), [("true", "all"), ("all", "all"), ("sample", "sample"), ("no", "no")])
def test_ways_to_verify(word: str, verify: str, tmp_path: Path) -> None:
    assert read_study(written(tmp_path, TEXT.replace("verify: false", f"verify: {word}"))).verify == verify


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("LOG_BLOCK: 3..5", "LOG_BLOK: 3..5", "study.yaml:10:3: E1501 'LOG_BLOK' is no parameter of machine 'vta'; did you mean 'LOG_BLOCK'?"),
        ("3..5", "3..9", "study.yaml:10:3: E1501 LOG_BLOCK = 8 cannot be; it is 2 to 7"),
        ("signed5", "signed6", "study.yaml:11:3: E1501 SHR = signed6 cannot be; it is full or signed5 or imm_sign"),
        ("3..5", "5..3", "E1501 '5..3' is no range of 'LOG_BLOCK'"),
        ("3..5", "three", "study.yaml:10:14: E0116 values are a list, or LEAST..MOST"),
        ("[full, signed5]", "[full, full]", "study.yaml:11:8: E0116 an entry is given twice"),
        (
            "search: bayes",
            "search: baies",
            "study.yaml:5:11: E0116 'baies' is not one of 'grid', 'random', 'bayes', 'evolution'; did you mean 'bayes'?",
        ),
        ("budget:", "bugdet:", "E0108 unknown key 'bugdet' in explore; did you mean 'budget'?"),
        ("machine: vta", "models2: []", "E0109 missing key 'machine' in explore"),
        ("SHR: [full, signed5]", "config: [pynk]", "E1501 config = pynk cannot be; it is sim, pynq"),
        ("SHR: [full, signed5]", "streams: [0]", "E1501 streams = 0 cannot be; it is whole numbers from 1 on"),
        ("SHR: [full, signed5]", "effort: [-1]", "E1501 effort = -1 cannot be; it is whole numbers from 0 on"),
        ("SHR: [full, signed5]", "search: [greedi]", "E1501 search = greedi cannot be; it is greedy, climb, cover, optimal"),
        (
            "SHR: [full, signed5]",
            "without: [none, dense+squared]",
            "study.yaml:11:3: E1501 without = dense+squared cannot be; it is none, or of machine 'vta' dense, squares, conv2d",
        ),
        (
            "SHR: [full, signed5]",
            "machine: [vta, vta:pynq]\n  config: [sim]",
            "study.yaml:11:3: E1501 'vta:pynq' says its configuration, and 'config' is varied; name the machine alone, or leave 'config' out",
        ),
        ("verify: false", "verify: maybe", "E0116 'maybe' is not one of "),
    ],
)
def test_mistakes_are_told_at_their_place(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert message in told(tmp_path, TEXT.replace(old, new))


@given(st.integers(-50, 50), st.integers(0, 20))
def test_a_range_has_both_ends(low: int, more: int) -> None:
    assert axis_of(f"A={low}..{low + more}").values == tuple(map(str, range(low, low + more + 1)))


def test_words_of_a_command_line() -> None:
    assert axis_of("SHR=full,signed5") == Axis("SHR", ("full", "signed5"))


@pytest.mark.parametrize("text", ["A", "=1", "A=", "A=1,,2", "A=1,1", "A=1..", "A=0..9999999", "A=1..2..3"])
def test_words_that_are_no_axis(text: str) -> None:
    with pytest.raises(UserError, match="E1501"):
        axis_of(text)


def test_choices_of_a_command_line_are_checked_too() -> None:
    vta, study = load_machine("vta"), Study("vta", (), (Axis("LOG_BUS", ("3",)),))
    check_study(study, [vta])
    for changed, message in (
        (replace(study, axes=()), "E1501 nothing varies"),
        (replace(study, objectives=("aria",)), "E1501 there is no objective 'aria'; did you mean 'area'?"),
        (replace(study, axes=study.axes * 2), "E1501 'LOG_BUS' is varied twice"),
    ):
        with pytest.raises(UserError, match="E1501") as caught:
            check_study(changed, [vta])
        assert message in str(caught.value)
    with pytest.raises(UserError, match="E1501 machine 'vta' does not say what 'energy' it costs; add the section 'costs'"):
        check_study(replace(study, objectives=("ms", "energy")), [replace(vta, costs=None)])


def test_every_machine_of_a_study_has_all_that_varies_and_all_that_is_asked(tmp_path: Path) -> None:
    text = "explore: {machine: vta, objectives: [ms, area]}\nvary:\n  machine: [vta, own/m.yaml]\n  LOG_BLOCK: [4]\n  without: [none, add_onto_x]\n"
    study, vta = read_study(written(tmp_path, text)), load_machine("vta")
    assert study.machines == ("vta", f"{tmp_path}/own/m.yaml")
    check_study(study, [vta, vta])
    with pytest.raises(UserError) as caught:
        check_study(study, [vta, load_machine("dpuv3")])
    assert [each.message for each in caught.value.diagnostics] == [
        "machine 'dpuv3' does not say what 'area' it costs",
        "'LOG_BLOCK' is no parameter of machine 'dpuv3'",
        "without = add_onto_x cannot be",
    ]


def test_a_machine_of_graphs_has_no_kernels_to_leave_out() -> None:
    study = Study("graphengine", (), (Axis("without", ("none", "conv2d")),))
    with pytest.raises(UserError, match="E1501 without = conv2d cannot be; it is none, or of machine 'graphengine' no kernel"):
        check_study(study, [load_machine("graphengine")])
