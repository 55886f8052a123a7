"""A region's timeline with the measured times in lanes of their own beside the modelled ones."""

from pathlib import Path

import numpy as np

from toolchain.report.profile.beside import Measured
from toolchain.report.profile.program import ModelledRegion
from toolchain.report.timeline_data import Overlay
from toolchain.report.timeline_page import write_timeline_page


def write_profile_page(path: Path, title: str, region: ModelledRegion, measured: Measured) -> None:
    """Raises UserError E0005."""
    write_timeline_page(path, title, region.timeline, region.legend, overlay(region, measured))


def overlay(region: ModelledRegion, measured: Measured) -> Overlay:
    """An instruction whose end was not measured is drawn as long as in the model; an operation is drawn by its instructions, moved and stretched
    evenly between its own ends."""
    result = region.timeline.result
    if not measured.whole:
        length = (result.end - result.start)[measured.index]
        return Overlay(measured.index, measured.start, np.where(np.isnan(measured.end), measured.start + length, measured.end))
    parts = list[tuple[np.typing.NDArray[np.int64], np.typing.NDArray[np.float64], np.typing.NDArray[np.float64]]]()
    for number, start, end in zip(measured.index.tolist(), measured.start, measured.end, strict=True):
        mine = np.flatnonzero(region.owner == number)
        first, last = result.start[mine].min(initial=np.inf), result.end[mine].max(initial=-np.inf)
        stretch = 1.0 if np.isnan(end) or last <= first else (end - start) / (last - first)
        parts.append((mine, start + (result.start[mine] - first) * stretch, start + (result.end[mine] - first) * stretch))
    return Overlay(*(np.concatenate(column) for column in zip(*parts, strict=True)))
