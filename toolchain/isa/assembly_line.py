"""One instruction as a line of assembly: the order of its fields, the spelling of each value, and a reader that collects all errors of a line."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar, cast

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


class TokenMemo(dict[K, V], Generic[K, V]):
    """A function's answers, kept: programs repeat the same few tokens and values."""

    def __init__(self, answer: Callable[[K], V]) -> None:
        super().__init__()
        self.answer = answer

    def __missing__(self, key: K) -> V:
        value = self[key] = self.answer(key)
        return value


@dataclass(frozen=True)
class Form:
    """kind: index into machine.instructions. fields: those that a line states, in the order of printing, positional ones first.

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


Faults = list[tuple[int, TokenError]]
"""(number of the token in its line, its fault)"""

_NUMERIC = frozenset("0123456789+-")


class LineReader:
    """Reads lines that start with one instruction's name. Tokens and values that come again cost a dictionary look-up."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.paired: Mapping[str, int] = form.slots if form.pairs else {}
        self.defaults = [f.default for f in form.fields]
        self.assigned: TokenMemo[str, tuple[int, int]] = TokenMemo(self._assignment)
        self.values: list[TokenMemo[str, int]] = [TokenMemo(partial(read_value, field)) for field in form.fields]
        self.names = [field.name for field in form.fields[form.positional :]] if form.pairs else []

    def read(self, tokens: list[str], faults: Faults) -> list[int]:
        """The values, in the order of the form's fields; meaningless where it adds to `faults`."""
        first = self.form.positional + 1
        if self.names and tokens[first::2] == self.names and len(tokens) == first + 2 * len(self.names):  # as a line is printed
            try:
                return [values[token] for values, token in zip(self.values, [*tokens[1:first], *tokens[first + 1 :: 2]], strict=True)]
            except TokenError:
                pass  # told below, with its place
        return self._read(tokens, faults)

    def _read(self, tokens: list[str], faults: Faults) -> list[int]:
        """Names in any order, any of them left out."""
        row: list[int | None] = [None] * len(self.defaults)
        at = self._positional(tokens, row, faults) if self.form.positional else 1
        while at < len(tokens):
            token = tokens[at]
            paired = self.paired.get(token)
            used = 1 if paired is None else 2
            try:
                slot, value = self.assigned[token] if paired is None else (paired, self._pair(tokens, at, paired))
                if row[slot] is not None:
                    raise TokenError("E0306", f"the field {self.form.fields[slot].name} is given twice")
                row[slot] = value
            except TokenError as error:
                faults.append((at + error.ahead, error))
                used += self._leaves_value(tokens, at)
            at += used
        return self._completed(row, faults)

    def _positional(self, tokens: list[str], row: list[int | None], faults: Faults) -> int:
        """Values without names, which come first; returns the number of the token after them."""
        for slot in range(self.form.positional):
            at = slot + 1
            if at >= len(tokens) or not (tokens[at][0] in _NUMERIC or tokens[at] in self.form.fields[slot].names):
                return at
            try:
                row[slot] = self.values[slot][tokens[at]]
            except TokenError as error:
                faults.append((at, error))
        return self.form.positional + 1

    def _leaves_value(self, tokens: list[str], at: int) -> bool:
        """Whether an unknown token is a misspelled name, whose value would be the next token."""
        follows = at + 1 < len(tokens) and tokens[at + 1][0] in _NUMERIC
        return self.form.pairs and follows and tokens[at] not in self.form.slots and "=" not in tokens[at] and tokens[at].isidentifier()

    def _pair(self, tokens: list[str], at: int, slot: int) -> int:
        if at + 1 >= len(tokens):
            raise TokenError("E0307", f"{tokens[at]} has no value", f"write {tokens[at]} VALUE")
        try:
            return self.values[slot][tokens[at + 1]]
        except TokenError as error:
            raise error.moved(ahead=1) from None

    def _assignment(self, token: str) -> tuple[int, int]:
        """(slot, value) of `name=value`."""
        name, equals, text = token.partition("=")
        slot = self.form.slots.get(name)
        if equals and slot is not None and not text:
            raise TokenError("E0307", f"{name} has no value", f"write {name}=VALUE without spaces")
        if slot is None:
            raise self._unknown(name, bool(equals))
        if not equals:
            raise TokenError("E0307", f"{name} has no value", f"write {name}=VALUE without spaces")
        try:
            return slot, read_value(self.form.fields[slot], text)
        except TokenError as error:
            raise error.moved(offset=len(name) + 1) from None

    def _unknown(self, name: str, assigned: bool) -> TokenError:
        instruction = self.form.instruction
        hint = nearest(name, self.form.slots)
        if name in instruction.match:
            return TokenError("E0302", f"{name} is not written", f"{instruction.name} says it")
        if not name.isidentifier() or not (assigned or hint or self.form.pairs):
            return TokenError("E0307", f"'{name or '='}' is out of place", "write NAME VALUE" if self.form.pairs else "write NAME=VALUE")
        return TokenError("E0302", f"{instruction.name} has no field '{name}'", hint)

    def _completed(self, row: list[int | None], faults: Faults) -> list[int]:
        """The row with defaults filled in."""
        if None not in row:
            return cast("list[int]", row)
        full = [default if value is None else value for value, default in zip(row, self.defaults, strict=True)]
        if None in full and not faults:
            missing = [f.name for f, value in zip(self.form.fields, full, strict=True) if value is None]
            faults.append((0, TokenError("E0305", f"{self.form.instruction.name} needs {', '.join(missing)}")))
        return [value or 0 for value in full]
