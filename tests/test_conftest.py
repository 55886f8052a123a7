"""Laws draw a share of the examples that they state, tests of many cases some of them, and long tests wait for the night."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
ROOT = Path(__file__).resolve().parents[1]
LAWS = """
from hypothesis import given, settings, strategies as st

def counted(name):
    with open(name, "a") as file:
        file.write(".")

@given(st.integers())
def test_any(n): counted("any")

@settings(max_examples=10)
@given(st.integers())
def test_ten(n): counted("ten")

@settings(max_examples=3)
@given(st.integers())
def test_three(n): counted("three")
"""


@pytest.mark.parametrize(("share", "wanted"), [("", (12, 4, 3)), ("2", (80, 20, 6))])
def test_a_share_is_drawn(share: str, wanted: tuple[int, int, int], pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILEWRIGHT_EXAMPLES", raising=False)
    if share:
        monkeypatch.setenv("TILEWRIGHT_EXAMPLES", share)
    pytester.makeconftest((ROOT / "tests" / "conftest.py").read_text())
    pytester.makepyfile(LAWS)
    pytester.runpytest_subprocess("-q").assert_outcomes(passed=3)
    assert tuple(len(Path(pytester.path, name).read_text()) for name in ("any", "ten", "three")) == wanted


MARKED = """
import pytest

def test_short(): pass

@pytest.mark.nightly
def test_long(): pass
"""


@pytest.mark.parametrize(("share", "passed"), [("0.3", 1), ("1", 2)])
def test_long_tests_run_where_laws_draw_all_of_their_examples(
    share: str, passed: int, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_EXAMPLES", share)
    started(MARKED, pytester)
    pytester.runpytest_subprocess("-q", "--strict-markers").assert_outcomes(passed=passed, deselected=2 - passed)


CASES = """
import pytest

@pytest.mark.drawn(3)
@pytest.mark.parametrize("case", range(20))
def test_any(case):
    with open("cases", "a") as file:
        file.write(f"{case} ")

@pytest.mark.drawn(3)
@pytest.mark.parametrize("case", range(2))
def test_few(case): pass
"""


def drawn_cases(pytester: pytest.Pytester) -> str:
    """The cases that a run took, which are then forgotten."""
    path = Path(pytester.path, "cases")
    found = path.read_text()
    path.unlink()
    return found


def started(text: str, pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nmarkers =\n  nightly: long\n  drawn(count): some\n")
    pytester.makeconftest((ROOT / "tests" / "conftest.py").read_text())
    pytester.makepyfile(text)


def test_a_run_draws_cases_and_a_number_repeats_them(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    started(CASES, pytester)
    found = list[str]()
    for number in ("1", "1", "2"):
        monkeypatch.setenv("TILEWRIGHT_DRAW", number)
        pytester.runpytest_subprocess("-q", "--strict-markers").assert_outcomes(passed=5, deselected=17)
        found.append(drawn_cases(pytester))
    assert found[0] == found[1] != found[2]


def test_workers_of_a_run_draw_the_same_cases(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILEWRIGHT_DRAW", raising=False)
    started(CASES, pytester)
    found = pytester.runpytest_subprocess("-n", "2")
    found.assert_outcomes(passed=5)
    found.stdout.fnmatch_lines("cases drawn by TILEWRIGHT_DRAW=*")


@pytest.mark.parametrize(("asked", "passed"), [(["test_asked.py::test_any"], 20), (["-k", "any"], 20), (["-m", "drawn"], 22)])
def test_cases_that_are_asked_for_all_run(asked: list[str], passed: int, pytester: pytest.Pytester) -> None:
    started(CASES, pytester)
    (written,) = Path(pytester.path).glob("test_*.py")
    written.rename(Path(pytester.path, "test_asked.py"))
    pytester.runpytest_subprocess(*asked).assert_outcomes(passed=passed, deselected=2 if passed == 20 and asked[0] == "-k" else 0)


def test_all_cases_run_where_laws_draw_all_of_their_examples(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_EXAMPLES", "1")
    started(CASES, pytester)
    pytester.runpytest_subprocess("-q").assert_outcomes(passed=22)


LONG = """
import time, pytest

@pytest.mark.parametrize("case", range(11))
def test_long(case):
    time.sleep(0.51 * (case == 3))
    with open("cases", "a") as file:
        file.write(f"{case} ")

def test_quick(): pass
"""


def test_a_run_draws_long_tests_the_more_seldom_the_longer_they_are(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILEWRIGHT_EXAMPLES", raising=False)
    started(LONG, pytester)
    (written,) = Path(pytester.path).glob("test_*.py")
    found = list[str]()
    for number, seconds in (("2", 0.2), ("2", 0.2), ("3", 0.2), ("2", 20), ("3", 20)):
        Path(pytester.path, "long_tests.txt").write_text(f"{written.name}::test_long {seconds}\n")
        monkeypatch.setenv("TILEWRIGHT_DRAW", number)
        assert pytester.runpytest_subprocess("-q").ret == 0
        found.append(drawn_cases(pytester))
    assert found[0] == found[1] != found[2]
    counts = [len(each.split()) for each in found]
    assert 1 < counts[0] < 11 > counts[2] > 1
    assert counts[3:] == [1, 1], "at least one of a package"
    for asked, passed in ((f"{written.name}::test_long", 11), (written.name, 12)):
        pytester.runpytest_subprocess(asked).assert_outcomes(passed=passed)


def test_the_list_of_long_tests_is_written_by_their_times(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_EXAMPLES", "1")
    started(LONG, pytester)
    path, (written,) = Path(pytester.path, "long_tests.txt"), Path(pytester.path).glob("test_*.py")
    path.write_text(f"elsewhere.py::test_other 3.0\n{written.name}::test_quick 0.7\n")
    pytester.runpytest_subprocess("-q", "--update-long").assert_outcomes(passed=12)
    assert path.read_text().splitlines() == ["elsewhere.py::test_other 3.0", f"{written.name}::test_long 0.5"]


def test_every_long_test_is_there() -> None:
    for line in (ROOT / "tests" / "long_tests.txt").read_text().splitlines():
        test, _ = line.split()
        file, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text(), test
