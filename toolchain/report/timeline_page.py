"""The timeline of a program as one self-contained HTML page: units over time, operations beside them, memory occupancy below."""

import json
from pathlib import Path
from typing import Any

from markupsafe import Markup

from toolchain.report.html import html_environment
from toolchain.report.timeline_data import Legend, Overlay, page_data
from toolchain.spec.files import write_atomic
from toolchain.timing.simulate import Timeline


def write_timeline_page(path: Path, title: str, timeline: Timeline, legend: Legend | None = None, overlay: Overlay | None = None) -> None:
    """Writes the page, whole or not at all. legend: None for a program without operations. overlay: measured times. Raises UserError E0005.

    A title may come from the name of a file, which need not be UTF-8.
    """
    write_atomic(path, timeline_page(title, timeline, legend or Legend(), overlay).encode(errors="replace"))


def timeline_page(title: str, timeline: Timeline, legend: Legend, overlay: Overlay | None = None) -> str:
    """A page with everything in it, the script included; times in cycles of the machine's clock. It loads nothing from a network."""
    return (
        html_environment()
        .get_template("timeline/timeline.html.j2")
        .render(title=title, data=script_data(page_data(title, timeline, legend, overlay=overlay)))
    )


def script_data(data: Any) -> Markup:
    """JSON for an element `script` of its own, which no text inside can end."""
    return Markup(json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"))
