"""Reports as files: text for a reader, and the same as JSON for programs."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolchain.spec.files import write_atomic


def write_json(path: Path, data: Mapping[str, Any]) -> Path:
    """Ends in one line feed. Raises UserError E0005."""
    write_atomic(path, (json.dumps(data, indent=1) + "\n").encode())
    return path


def write_report(path: Path, text: str, data: Mapping[str, Any]) -> list[Path]:
    """The text, ending in one line feed, and the JSON beside it. Raises UserError E0005."""
    write_atomic(path, (text.rstrip() + "\n").encode())
    return [path, write_json(path.with_suffix(".json"), data)]
