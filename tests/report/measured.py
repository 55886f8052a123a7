"""A region of the tests as the model times it, and profiles of it."""

from functools import cache

import numpy as np

from tests.operations.made import load_machine
from tests.runtime import small
from toolchain.report.bundles import ModelledRegion, modelled_region
from toolchain.report.measured_times import Profile, read_profile
from toolchain.spec.errors import Source


@cache
def region() -> ModelledRegion:
    """Two convolutions on vta."""
    bundle = small.bundle()
    return modelled_region(bundle, bundle.manifest.regions[0], load_machine("vta"), "small.bundle")


def profile(late: "np.typing.NDArray[np.float64] | float" = 0.0, ends: bool = True, unit: str = "cycles", name: str = "region0") -> Profile:
    """Every instruction, so many cycles later than in the model. vta has one stream."""
    return read_profile(Source("p.csv", text(late, ends, unit, name)))


def text(late: "np.typing.NDArray[np.float64] | float" = 0.0, ends: bool = True, unit: str = "cycles", name: str = "region0") -> str:
    timeline = region().timeline
    factor = 1.0 if unit == "cycles" else 1e6 / timeline.program.machine.timing.clock_khz
    delay = np.broadcast_to(late, len(timeline.program))
    rows = [
        f"{name},{index},{start:.3f},{f'{end:.3f}' if ends else ''},{index}"
        for index, (start, end) in enumerate(zip((timeline.result.start + delay) * factor, (timeline.result.end + delay) * factor, strict=True))
    ]
    return "\n".join([f"region,instruction,start_{unit},end_{unit},stalls", *rows]) + "\n"
