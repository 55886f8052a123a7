"""How often Python looks for circles of objects."""

import gc
from collections.abc import Generator
from contextlib import contextmanager

RARELY = (1_000_000, 50, 100)
"""Thresholds: a build makes millions of objects and hardly a circle, and looking for those at the usual pace takes a tenth of its time."""


@contextmanager
def rare_collections() -> Generator[None]:
    """Looks rarely meanwhile. Going back looks through all that was made at once, so the command itself looks rarely from start to end."""
    before = gc.get_threshold()
    gc.set_threshold(*RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def circles_collected() -> Generator[None]:
    """Collects at the end the circles of objects that were made inside. It does not look at those that were there before: in a process that has built
    much, or holds much else, that would take longer than a build."""
    frozen = gc.get_freeze_count() > 0  # by somebody else, whose objects are not ours to thaw
    if not frozen:
        gc.freeze()
    try:
        yield
    finally:
        gc.collect()
        if not frozen:
            gc.unfreeze()
