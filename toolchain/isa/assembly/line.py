"""Reads the fields of one line of assembly; what is wrong is collected, so that a line shows all its errors at once."""

from collections.abc import Mapping
from functools import partial
from typing import cast

from toolchain.isa.assembly.form import Form, Memo, TokenError, read_value
from toolchain.spec.errors import nearest

Faults = list[tuple[int, TokenError]]
"""(number of the token in its line, what is wrong with it)"""

_NUMERIC = frozenset("0123456789+-")


class LineReader:
    """Reads lines that start with one instruction's name. Tokens and values that come again cost a dictionary look-up."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.paired: Mapping[str, int] = form.slots if form.pairs else {}
        self.defaults = [f.default for f in form.fields]
        self.assigned: Memo[str, tuple[int, int]] = Memo(self._assignment)
        self.values: list[Memo[str, int]] = [Memo(partial(read_value, field)) for field in form.fields]
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
        """Whether a token that means nothing is a wrong name, so that the next one was to be its value."""
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
