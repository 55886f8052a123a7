"""Collections are rare meanwhile, and as before afterwards."""

import gc
import weakref

from toolchain.tasks.garbage import RARELY, circles_collected, rare_collections


def test_thresholds_come_back() -> None:
    before = gc.get_threshold()
    with rare_collections():
        assert gc.get_threshold() == RARELY != before
    assert gc.get_threshold() == before


class Circle:
    def __init__(self) -> None:
        self.itself = self


def test_only_circles_that_are_made_inside_are_collected() -> None:
    before = weakref.ref(Circle())
    with circles_collected():
        inside = weakref.ref(Circle())
        assert inside() is not None
    assert (before() is not None, inside(), gc.get_freeze_count()) == (True, None, 0)


def test_what_somebody_else_froze_stays_frozen() -> None:
    gc.freeze()
    try:
        with circles_collected():
            inside = weakref.ref(Circle())
        assert inside() is None
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
