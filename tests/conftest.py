"""Shared fixtures: golden texts with an update switch, machines loaded once, vendor programs where they are at hand."""

import gc
import os
import random
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "golden"


os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
"""Tests start the command a hundred times: compiling all of its modules anew would be most of that."""


os.environ.setdefault("TILEWRIGHT_CFLAGS", "-Og")
"""Code for a program of a test runs once: optimising it takes longer than it saves."""


os.environ.setdefault("TILEWRIGHT_PROCESSES", "1")
"""Tests run side by side already."""


gc.set_threshold(1_000_000, 50, 100)
"""As commands have it: tests make millions of objects and hardly a circle."""


settings.register_profile("suite", max_examples=40, deadline=None)
settings.load_profile("suite")
"""Examples of a law that does not say how many. A deadline would fail on a busy machine."""


SHARE = float(os.environ.get("TILEWRIGHT_EXAMPLES", "0.3"))
"""The share of its examples that a law draws: every run draws others, so one run of many needs less than one alone would, and the workflow `nightly`
draws twice as many as are stated. 1 draws all."""
FEWEST = 4
"""Examples that are drawn however small the share is."""


LONGEST = (
    "test_console_blocks.py", "test_kernel_check.py", "test_benches.py", "test_region_ladder.py", "test_ratio.py", "test_stand_alone.py",
    "test_gemmini_kernels.py", "test_stcp920_kernels.py", "test_search.py", "test_commands.py", "test_packaging.py",
)  # fmt: skip
"""Files of more than twenty seconds: they begin first, so that workers end together."""


LONG_LIST = Path(__file__).with_name("long_tests.txt")
"""Tests that take LONG_SECONDS or more, a line each with the seconds of their longest case; `--update-long` writes it."""
LONG_SECONDS = 0.5
MEAN_SECONDS = 0.1
"""A run draws a case of a long test as often as makes it cost so much on average: one of 0.5 s in every fifth run, one of 5 s in every fiftieth. It
takes at least one of each package's."""
ALWAYS = ("tests/docs/test_readme.py", "tests/tasks/test_stage.py", "tests/test_layers.py", "tests/test_set_order.py")
"""Files with long tests that every run takes whole: README's figures and output, and laws of the source as a whole."""


DRAW = "TILEWRIGHT_DRAW"
"""The variable with the number by which a run draws long tests, and the cases of tests marked `drawn`; workers of one run inherit it."""


def pytest_configure() -> None:
    os.environ.setdefault(DRAW, str(secrets.randbelow(1_000_000)))


def pytest_report_header() -> str:
    return f"cases drawn by {DRAW}={os.environ[DRAW]}, {SHARE:g} of the examples of laws"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long files first. Each law takes its share of examples once, however many parameters its test has. Where laws do not draw all their examples,
    tests marked `nightly` are left out, as others of their file show the same on a smaller input, and so are all cases of a test marked `drawn`
    but as many as the mark says, and most long tests: each run draws others. A test that is asked for by its name or a mark runs, and so do
    the long ones of a file that is."""
    asked = config.option.keyword or config.option.markexpr or any("::" in argument for argument in config.args)
    if SHARE < 1 and not asked:
        left = {item for item in items if item.get_closest_marker("nightly")} | _not_drawn(items)
        named = {Path(argument).resolve() for argument in config.args if argument.endswith(".py")}
        left |= _long_and_not_drawn([item for item in items if item not in left and item.path not in named])
        config.hook.pytest_deselected(items=[item for item in items if item in left])
        items[:] = [item for item in items if item not in left]
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))
    laws = dict.fromkeys(law for item in items if getattr(law := getattr(item, "obj", None), "is_hypothesis_test", False))
    for law in laws:
        stated = getattr(law, STATED, settings())
        setattr(law, STATED, settings(stated, max_examples=max(round(SHARE * stated.max_examples), min(FEWEST, stated.max_examples))))


def _not_drawn(items: list[pytest.Item]) -> set[pytest.Item]:
    """The cases of tests marked `drawn(N)` that this run leaves out: all but N of each test."""
    cases = dict[str, list[pytest.Item]]()
    for item in items:
        if item.get_closest_marker("drawn"):
            cases.setdefault(_test_of(item.nodeid), []).append(item)
    left = set[pytest.Item]()
    for test, own in cases.items():
        (count,) = own[0].get_closest_marker("drawn").args
        left |= _all_but(own, count, test)
    return left


def _long_and_not_drawn(items: list[pytest.Item]) -> set[pytest.Item]:
    """The long tests that this run leaves out."""
    long, packages = _long_seconds(), dict[str, list[pytest.Item]]()
    for item in items:
        if _test_of(item.nodeid) in long:
            packages.setdefault("/".join(item.nodeid.partition("::")[0].split("/")[:-1][:2]), []).append(item)
    left = set[pytest.Item]()
    for own in packages.values():
        weights = {item: long[_test_of(item.nodeid)] * random.Random(f"{os.environ[DRAW]} {item.nodeid}").random() for item in own}
        left |= {item for item in own if weights[item] > max(MEAN_SECONDS, min(weights.values()))}
    return left


def _long_seconds() -> dict[str, float]:
    """The tests of LONG_LIST with their seconds; none where there is no such file."""
    lines = LONG_LIST.read_text().splitlines() if LONG_LIST.is_file() else []
    return {test: float(seconds) for test, seconds in map(str.split, lines)}


def _all_but(items: list[pytest.Item], count: int, name: str) -> set[pytest.Item]:
    """Those that are not among `count` of them, which the run's number and a name draw."""
    return {*items} - {*random.Random(f"{os.environ[DRAW]} {name}").sample(items, min(count, len(items)))}


def _test_of(nodeid: str) -> str:
    """A test without the name of its case."""
    return nodeid.partition("[")[0]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Writes the list of long tests, where that is asked for: by the times of the tests that this run took; others stay as they are."""
    if not config.option.update_long:
        return
    seconds = dict[str, float]()
    for report in (each for reports in terminalreporter.stats.values() for each in reports if isinstance(each, pytest.TestReport)):
        if report.when == "call":
            test = _test_of(report.nodeid)
            seconds[test] = max(seconds.get(test, 0.0), report.duration)
    taken = {test: most for test, most in seconds.items() if most >= LONG_SECONDS and not test.startswith(ALWAYS)}
    long = {test: most for test, most in _long_seconds().items() if test not in seconds} | taken
    LONG_LIST.write_text("".join(f"{test} {most:.1f}\n" for test, most in sorted(long.items())))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Workers take whole files, so that what the tests of one share is made once: a fifth less of the processor's time."""
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False
    return LoadFileScheduling(config, log)


def pytest_collection_finish() -> None:
    """Modules, machines and tests stay to the end: searches for circles leave them out."""
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def circles() -> Iterator[None]:
    """Circles go with the file that left them; whatever else a file leaves (caches, mostly) stays, and is looked through once."""
    yield
    gc.collect()
    gc.freeze()


STATED = "_hypothesis_internal_use_settings"
"""Where hypothesis keeps what `@settings` says; a profile has no say in it."""


def pytest_sessionfinish() -> None:
    """pytest collects five times at the end, for exceptions that objects raise as they go; once is enough, and most is frozen by then."""
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing with them")
    parser.addoption("--update-long", action="store_true", help="write the list of long tests by the times of this run")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a text with tests/golden/NAME; a missing file fails unless --update-golden is given."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.is_file(), f"no golden file {path}; run pytest --update-golden and read what it wrote"
        assert text == path.read_text()

    return check


@pytest.fixture(scope="session")
def vendor_streams() -> Path:
    """The folder of vendor programs named by TILEWRIGHT_DPUV3_STREAMS; skips without it."""
    folder = os.environ.get("TILEWRIGHT_DPUV3_STREAMS", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("TILEWRIGHT_DPUV3_STREAMS does not name a folder")
    return Path(folder)
