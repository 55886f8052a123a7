"""Laws draw a share of the examples that they state, and long tests wait for the night."""

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
    pytester.makeini("[pytest]\nmarkers = nightly: long\n")
    pytester.makeconftest((ROOT / "tests" / "conftest.py").read_text())
    pytester.makepyfile(MARKED)
    pytester.runpytest_subprocess("-q", "--strict-markers").assert_outcomes(passed=passed, deselected=2 - passed)
