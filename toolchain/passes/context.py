"""What passes know besides the graph."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Context:
    """place: the model's path as messages print it."""

    place: str = ""
