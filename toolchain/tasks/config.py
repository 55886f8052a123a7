"""How doit shall run our tasks."""

from collections.abc import Mapping
from typing import Any

from toolchain.tasks.reporter import Reporter

CONFIG: Mapping[str, Any] = {"backend": "sqlite3", "dep_file": ":memory:", "reporter": Reporter, "verbosity": 2, "default_tasks": ["build"]}
"""No database: what is up to date is told by the receipts beside the files, written as each task ends."""
