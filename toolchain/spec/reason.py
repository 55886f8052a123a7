"""A reason as data: a code and arguments. Its words are in the table of `toolchain.spec.reasons` alone."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter
from types import MappingProxyType

from toolchain.spec.typed_json import from_json, to_json

Argument = str | int | float | Sequence[int]
NAMES: Mapping[str, str] = MappingProxyType({"tensor": "a tensor", "node": "a node"})
"""Types of arguments that name a part of the model, and how several of them read: reasons that differ in those alone are of one group."""
QUOTED = (*NAMES, "name")
"""Types of arguments that are quoted: `name` is one of the machine's (a kernel, a memory, an operation)."""


@dataclass(frozen=True)
class Reason:
    """Why a part of a model runs where it does, or as it does. because: the reasons behind it. Kept as JSON wherever it goes."""

    code: str
    arguments: Mapping[str, object] = field(default_factory=dict[str, object])
    because: tuple["Reason", ...] = ()

    @property
    def key(self) -> str:
        """Equal for equal reasons; a text that sorts."""
        return reasons_json((self,))


@dataclass(frozen=True)
class Wording:
    """The words of a code. text: with a placeholder for each argument, `{tensor:tensor}`, whose format is a type of QUOTED or one of Python's;
    `{because}` stands for the reasons behind it. change: advice to the user, in which `{machine}` and `{activations}` are known too.
    """

    text: str
    change: str = ""

    @property
    def arguments(self) -> Mapping[str, str]:
        """The format of each argument."""
        return {name: form or "" for _, name, form, _ in Formatter().parse(self.text) if name and name != "because"}

    def say(self, reason: Reason, because: str, general: bool = False) -> str:
        """The text of a reason. because: of those behind it. general: without the names of the model's own parts."""
        parts: list[str] = []
        for literal, name, form, _ in Formatter().parse(self.text):
            parts.append(literal.removesuffix(f"{form} ") if general and form in NAMES else literal)  # `node 'conv1'` is `a node`
            if name == "because":
                parts.append(because)
            elif name is not None:
                parts.append(shown(reason.arguments[name], form or "", general))
        return "".join(parts)


def shown(value: object, form: str, general: bool = False) -> str:
    """An argument in a text."""
    if general and form in NAMES:
        return NAMES[form]
    if form in QUOTED:
        return f"'{value}'"
    return str(list(value)) if isinstance(value, tuple) else format(value, form)  # pyright: ignore[reportUnknownArgumentType]


def reasons_json(reasons: Sequence[Reason]) -> str:
    """One line of JSON, as the metadata of a node holds it."""
    return json.dumps([to_json(reason) for reason in reasons], ensure_ascii=False, separators=(",", ":"))


def read_reasons(text: str) -> tuple[Reason, ...]:
    """Raises ValueError for text that `reasons_json` did not write."""
    return from_json(tuple[Reason, ...], json.loads(text))
