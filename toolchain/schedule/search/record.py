"""The record of a search: every schedule that was timed, its cycles, and the gain of the one that was taken."""

import json
from collections.abc import Sequence

from toolchain.schedule.search.contest import Trial

FORMAT = 1


def write_record(region: str, policy: str, effort: int, trials: Sequence[Trial]) -> str:
    """JSON. cycles: before the order of rows was tuned by exact time; tuned: after that, null where a schedule did not come so far. An empty list of
    candidates says that the first schedule had no rival, and was not timed as a whole."""
    rows = [
        {
            "candidate": trial.draft.origin,
            "cycles": None if trial.refused else round(trial.cycles),
            "tuned": None if trial.settled is None else round(trial.settled),
            "refused": trial.refused or None,
        }
        for trial in trials
    ]
    tuned = [trial for trial in trials if trial.settled is not None]
    best = min(tuned, key=lambda trial: trial.settled or 0.0, default=None)
    found = {
        "format": FORMAT,
        "region": region,
        "search": policy,
        "effort": effort,
        "candidates": rows,
        "taken": best.draft.origin if best else None,
        "gain_cycles": round((tuned[0].settled or 0.0) - (best.settled or 0.0)) if best else 0,
    }
    return json.dumps(found, indent=1) + "\n"
