"""Results of workers are those of one process, in whatever order they are asked for; a worker ends with its command."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from toolchain.schedule.workers import PROCESSES, Workers, processes
from toolchain.spec.errors import UserError, fail

TWO = 2


def place(facts: int, item: int) -> tuple[int, int]:
    """A product, and the process that computed it."""
    if item < 0:
        raise fail("E1004", f"no room for {item}")
    return facts * item, os.getpid()


def slow_place(facts: int, item: int) -> tuple[int, int]:
    time.sleep(0.2)
    return place(facts, item)


def test_another_process_computes_ahead_and_the_results_are_the_same() -> None:
    with Workers(TWO, patience_seconds=0) as workers, workers.ahead(slow_place, 3, range(10)) as result:
        found = [result(item) for item in range(10)]
    assert [product for product, _ in found] == [3 * item for item in range(10)]
    assert len({process for _, process in found}) == TWO


def test_short_work_and_one_process_start_none() -> None:
    for workers in (Workers(1, patience_seconds=0), Workers(TWO)):
        with workers, workers.ahead(place, 3, range(10)) as result:
            assert {result(item)[1] for item in range(10)} == {os.getpid()}


def test_items_may_be_left_out() -> None:
    with Workers(TWO, patience_seconds=0) as workers, workers.ahead(slow_place, 3, range(8)) as result:
        assert [result(item)[0] for item in (0, 5)] == [0, 15]


def test_an_error_of_the_user_comes_where_its_item_is_asked_for() -> None:
    with Workers(TWO, patience_seconds=0) as workers, workers.ahead(slow_place, 3, [1, 2, 3, -1]) as result:
        assert [result(item)[0] for item in (1, 2, 3)] == [3, 6, 9]
        with pytest.raises(UserError, match="no room for -1"):
            result(-1)


KEPT: list[bytes] = []


def keep_much(size: int, item: int) -> tuple[int, int]:
    """Grows by `size` bytes of memory that are in use."""
    KEPT.append(bytes([item]) * size)
    time.sleep(0.7)
    return len(KEPT), os.getpid()


def test_a_worker_may_keep_much(recwarn: pytest.WarningsRecorder) -> None:
    """The library would start another one past 300 MB, which has everything to find out again."""
    with Workers(TWO, patience_seconds=0) as workers, workers.ahead(keep_much, 170 << 20, range(10)) as result:
        found = [result(item) for item in range(10)]
    KEPT.clear()
    others = {process: count for count, process in found if process != os.getpid()}
    assert [*others.values()] == [max(count for count, process in found if process in others)]
    assert max(others.values()) >= 3
    assert not recwarn.list


def end_first_worker(command: int, item: int) -> int:
    """Ends the process that computes it, unless that is the command."""
    time.sleep(0.2)
    if os.getpid() != command:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def test_work_of_a_worker_that_was_killed_is_done_here() -> None:
    with Workers(TWO, patience_seconds=0) as workers, workers.ahead(end_first_worker, os.getpid(), range(6)) as result:
        assert [result(item) for item in range(6)] == [*range(6)]


def test_workers_of_which_one_was_killed_may_be_asked_again() -> None:
    with Workers(TWO, patience_seconds=0) as workers:
        with workers.ahead(end_first_worker, os.getpid(), range(4)) as result:
            assert [result(item) for item in range(4)] == [*range(4)]
        with workers.ahead(slow_place, 3, range(6)) as result:
            assert [result(item)[0] for item in range(6)] == [3 * item for item in range(6)]


def test_a_worker_goes_on_after_an_error() -> None:
    """The first item is asked for and done here, the second fails in the worker, which takes another."""
    with Workers(TWO, patience_seconds=0) as workers, workers.ahead(slow_place, 3, [1, -1, *range(2, 12)]) as result:
        found = [result(item)[1] for item in (1, *range(2, 12))]
    assert len({*found}) == TWO


def test_the_number_of_processes_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, count in (("3", 3), ("0", 1), ("many", 1), ("-2", 1)):
        monkeypatch.setenv(PROCESSES, text)
        assert processes() == count
    monkeypatch.delenv(PROCESSES)
    assert 1 <= processes() <= (os.cpu_count() or 1)


COMMAND = """
import os, sys, time
from tests.schedule.test_workers import process_forever
from toolchain.schedule.workers import Workers
with Workers(2, patience_seconds=0) as workers, workers.ahead(process_forever, sys.argv[1], range(4)) as result:
    result(0)
"""


def process_forever(folder: str, item: int) -> None:
    (Path(folder) / str(os.getpid())).touch()
    while item >= 0:
        time.sleep(0.1)


def test_workers_end_with_a_command_that_was_killed(tmp_path: Path) -> None:
    command = subprocess.Popen([sys.executable, "-c", COMMAND, str(tmp_path)], cwd=Path(__file__).resolve().parents[2])
    try:
        assert waited_for(lambda: len([*tmp_path.iterdir()]) >= TWO)
    finally:
        command.kill()
        command.wait()
    numbers = [int(path.name) for path in tmp_path.iterdir()]
    assert waited_for(lambda: not any(Path(f"/proc/{number}").exists() for number in numbers))


def waited_for(fact: Callable[[], bool]) -> bool:
    """Whether it is so within a minute."""
    end = time.monotonic() + 60
    while not fact() and time.monotonic() < end:
        time.sleep(0.1)
    return fact()
