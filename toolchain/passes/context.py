"""What passes know besides the graph."""

from dataclasses import dataclass

from toolchain.passes.templates import Template


@dataclass(frozen=True)
class Context:
    """place: the model's path as messages print it. templates: a machine's fusion templates; none means the default ones."""

    place: str = ""
    templates: tuple[Template, ...] = ()
