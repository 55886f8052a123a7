"""How many images are compared: one alone may miss a wrong limit or shift, and a large network takes minutes for each."""

from math import ceil

LARGE = 10_000_000_000
"""Multiply-accumulates of one image from which on a network is compared on fewer."""
IMAGES, IMAGES_OF_LARGE = 4, 2


def compared_images(macs: int, per_run: int, samples: int) -> int:
    """Whole runs of the program that take at least IMAGES images, or IMAGES_OF_LARGE of a large network.

    macs: of one image. per_run: images that a run takes at once. samples: how many there are; none is compared in two runs.
    """
    wanted = IMAGES if macs < LARGE else IMAGES_OF_LARGE
    return per_run * ceil(max(min(wanted, samples), 1) / per_run)
