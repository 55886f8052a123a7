"""How one instruction is written as a line of assembly: which fields, in which order, each value's spelling."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from toolchain.spec.errors import nearest
from toolchain.spec.model import Encoding, Field, Instruction, Machine

_NUMBER = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)\Z")
_BINARY = re.compile(r"[-+]?[01]+\Z")
_LONGEST = 80
K = TypeVar("K")
V = TypeVar("V")


class TokenError(Exception):
    """A fault in a token, or `ahead` tokens after it, `offset` characters in; a Diagnostic where the place is known."""

    def __init__(self, code: str, message: str, hint: str = "", offset: int = 0, ahead: int = 0) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.offset, self.ahead = code, message, hint, offset, ahead

    def moved(self, offset: int = 0, ahead: int = 0) -> "TokenError":
        """This error, moved to another place."""
        return TokenError(self.code, self.message, self.hint, offset, ahead)


class Memo(dict[K, V], Generic[K, V]):
    """A function's answers, kept: programs repeat the same few tokens and values."""

    def __init__(self, answer: Callable[[K], V]) -> None:
        super().__init__()
        self.answer = answer

    def __missing__(self, key: K) -> V:
        value = self[key] = self.answer(key)
        return value


@dataclass(frozen=True)
class Form:
    """kind: index into machine.instructions. fields: what a line states, in the order it is printed, positional ones first.

    slots: place in `fields` by name. pairs: `name value` is read, and every field is printed; otherwise `name=value`, and
    a field at its default is left out.
    """

    kind: int
    instruction: Instruction
    fields: tuple[Field, ...]
    slots: Mapping[str, int]
    positional: int
    pairs: bool


def forms(machine: Machine) -> dict[str, Form]:
    """The form of every instruction by name."""
    return {i.name: _form(kind, i, machine.encoding) for kind, i in enumerate(machine.instructions)}


def _form(kind: int, instruction: Instruction, encoding: Encoding) -> Form:
    stated = {f.name: f for f in instruction.fields if f.name not in instruction.match}
    first = [stated[name] for name in encoding.positional if name in stated]
    fields = (*first, *(f for f in stated.values() if f not in first))
    return Form(kind, instruction, fields, {f.name: n for n, f in enumerate(fields)}, len(first), encoding.assign == " ")


def read_value(field: Field, text: str) -> int:
    """A field's value as written. Raises TokenError E0303 (not a value), E0304 (out of range)."""
    if text in field.names:
        return field.names[text]
    plain = text.isdigit() and text.isascii() and len(text) < 19 and field.radix != 2
    value = int(text) if plain else _number(field, text)
    if not field.low <= value <= field.high:
        raise TokenError("E0304", f"{field.name} is {value}, outside {field.low}..{field.high}")
    return value


def _number(field: Field, text: str) -> int:
    """Any number but a plain decimal one."""
    if len(text) > _LONGEST or not _NUMBER.match(text):
        raise TokenError("E0303", f"{field.name} cannot be '{text[:_LONGEST]}'", nearest(text[:_LONGEST], field.names) or "write a number")
    if not text.lstrip("+-").isdigit():
        return int(text, 0)
    if field.radix != 2:
        return int(text)
    if not _BINARY.match(text):
        raise TokenError("E0303", f"{field.name} cannot be '{text}'", "write it in binary digits")
    return int(text, 2)


def write_value(field: Field, value: int) -> str:
    """The canonical spelling: the symbolic name, or a number in the field's radix."""
    for name, meaning in field.names.items():
        if meaning == value:
            return name
    if field.radix == 2:
        return f"{value:0{field.bits + (value < 0)}b}"
    return f"{value:#x}" if field.radix == 16 else str(value)
