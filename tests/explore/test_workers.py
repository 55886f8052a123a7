"""Points on Dask's workers are those of one process."""

import os
import sys
from pathlib import Path

import pytest

from tests.explore.studies import STUDY
from toolchain.explore.session import explore
from toolchain.explore.study import Axis, Study
from toolchain.explore.workers import workers
from toolchain.spec.errors import UserError

REFUSED = Study("vta", ("digits",), (Axis("LOG_BLOCK", ("2", "3")), Axis("LOG_BUS", ("3", "4"))))
"""Points that end quickly."""


def test_without_dask_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with workers(STUDY, tmp_path, 1, ""):
        pass
    with pytest.raises(UserError, match="E1503 several workers need the package 'distributed'"), workers(STUDY, tmp_path, 2, ""):
        pass


@pytest.mark.skipif(not os.environ.get("TILEWRIGHT_SLOW"), reason="a cluster takes half a minute to start on a busy machine")
@pytest.mark.filterwarnings("ignore")
def test_two_workers_find_the_same_as_one_process(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    pytest.importorskip("optuna")
    one, two = (explore(REFUSED, tmp_path / str(count), tmp_path / "build", lambda _: None, count) for count in (1, 2))
    assert one == two
    assert len(one) == 4
    assert all(each.refused for each in one.values())
