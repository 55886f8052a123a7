"""A program's timeline as a picture: a row for each unit, coloured by instruction, waiting left white."""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Patch

from toolchain.timing.simulate import Timeline

COLOURS = ("#4c72b0", "#dd8452", "#55a868", "#c44e52", "#8172b3", "#937860", "#da8bc3", "#8c8c8c")


def draw_timeline(timeline: Timeline, path: Path, title: str, detail: float = 0.15) -> None:
    """Writes a PNG: the whole run above, its first `detail` share below. Cycles along the x axis."""
    figure, axes = plt.subplots(2, 1, figsize=(11, 4.6), layout="constrained")
    whole = timeline.cycles
    for axis, end in zip(axes, (whole, whole * detail), strict=True):
        _rows(timeline, axis, end)
    axes[0].set_title(title, fontsize=11, loc="left")
    axes[1].set_xlabel(f"cycles at {timeline.program.machine.timing.clock_khz / 1000:g} MHz; below: the first {detail:.0%}")
    names = [i.name for i in timeline.program.machine.instructions]
    present = sorted(set(timeline.program.kind.tolist()))
    figure.legend(handles=[Patch(color=COLOURS[k % len(COLOURS)], label=names[k]) for k in present], loc="outside right center", frameon=False)
    figure.savefig(path, dpi=110, metadata={"Software": ""})
    plt.close(figure)


def _rows(timeline: Timeline, axis: plt.Axes, end: float) -> None:
    program = timeline.program
    units = [u.name for u in program.machine.units]
    for row in range(len(units)):
        mine = np.flatnonzero((program.unit == row) & (timeline.result.start < end))
        spans = [(float(timeline.result.start[i]), float(timeline.result.end[i] - timeline.result.start[i])) for i in mine]
        colours = [COLOURS[int(program.kind[i]) % len(COLOURS)] for i in mine]
        axis.broken_barh(spans, (row - 0.38, 0.76), facecolors=colours, linewidth=0)
    axis.set(yticks=range(len(units)), yticklabels=units, xlim=(0, end), ylim=(len(units) - 0.5, -0.5))
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(left=False)
