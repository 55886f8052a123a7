"""Collections are rare meanwhile, and as before afterwards."""

import gc

from toolchain.tasks.garbage import RARELY, rare_collections


def test_thresholds_come_back() -> None:
    before = gc.get_threshold()
    with rare_collections():
        assert gc.get_threshold() == RARELY != before
    assert gc.get_threshold() == before
