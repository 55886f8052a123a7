"""YAML with a position on every node, hostile input refused before anything is built from it.

One pass over the parser's events (not recursive) refuses aliases, tags, deep nesting and size, so no alias bomb can hurt; then the
same events become plain values, read by YAML 1.2's rules. Errors of several nodes are gathered and raised together.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import yaml

from toolchain.spec.errors import Diagnostic, Source, Span, UserError, fail
from toolchain.spec.typed_json import Tree

MAX_BYTES = 4 << 20
MAX_DEPTH = 64
MAX_VALUES = 200_000
"""Keys, values and collections of one file: about three seconds of reading."""
MAX_DIGITS = 80
Path = tuple[str | int, ...]
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9_]*|0x[0-9a-fA-F_]*[0-9a-fA-F][0-9a-fA-F_]*|0o[0-7_]*[0-7][0-7_]*|0b[01_]*[01][01_]*)\Z")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\Z")
_UNREADABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"
_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Node:
    """value: dict[str, Node], list[Node] or a plain scalar. style: `|`, `>`, quote character or empty.

    key_span: where the key stands, for members of a mapping.
    """

    value: Any
    span: Span
    path: Path
    style: str = ""
    key_span: Span | None = None

    def get(self, key: str) -> "Node | None":
        """The member of a mapping, or None."""
        return self.value.get(key) if isinstance(self.value, dict) else None  # pyright: ignore

    def items(self) -> Iterator[tuple[str, "Node"]]:
        yield from self.value.items()

    def members(self, key: str) -> "list[tuple[str, Node]]":
        """The members of the mapping at `key`; none where it is left out."""
        found = self.get(key)
        return list(found.items()) if found and found.value else []

    def entries(self, key: str) -> "list[Node]":
        """The entries of the list at `key`; none where it is left out."""
        found = self.get(key)
        return list(found.value) if found and found.value else []

    def text(self, key: str, default: str = "") -> str:
        """The text at `key`."""
        found = self.get(key)
        return str(found.value) if found else default

    def number(self, key: str, default: int = 0) -> int:
        """The integer at `key`."""
        found = self.get(key)
        return int(found.value) if found else default

    def flag(self, key: str) -> bool:
        """Whether `key` is there and true."""
        found = self.get(key)
        return found is not None and bool(found.value)

    def children(self) -> "list[Node]":
        """The members of a mapping or the entries of a list."""
        if isinstance(self.value, dict):
            return [node for _, node in self.items()]
        return list(self.value) if isinstance(self.value, list) else []  # pyright: ignore[reportUnknownArgumentType]

    def plain(self) -> Tree:
        """The value without positions."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]  # pyright: ignore
        return self.value

    def at(self, path: Path) -> "Node":
        """The node below this one at `path`, or the nearest that exists."""
        node = self
        for part in path:
            try:
                node = node.value[part]
            except (KeyError, IndexError, TypeError):
                return node
        return node

    def locate(self, line: int, column: int) -> Span:
        """The place of line (from 1) and column (from 0) of this scalar's own text."""
        if self.style in ("|", ">"):
            return Span(self.span.source, self.span.line + line, self.indent + column + 1)
        skip = 1 if self.style else 0
        return Span(self.span.source, self.span.line, self.span.column + skip + column)

    @property
    def indent(self) -> int:
        """Columns before the text of a block scalar."""
        for number in range(self.span.line + 1, self.span.line + 1000):
            text = self.span.source.line(number)
            if text.strip():
                return len(text) - len(text.lstrip(" "))
        return 0

    def where(self) -> Span:
        """The key of a mapping's member, or the value itself where there is no key."""
        return self.key_span or self.span


def parse_yaml(source: Source) -> Node:
    """Reads one document. Raises UserError E0101 (syntax), E0102 (not allowed here), E0103 (duplicate key)."""
    if len(source.text) > MAX_BYTES:
        raise fail("E0102", f"the file is larger than {MAX_BYTES} bytes", place=source.path)
    if found := _UNREADABLE.search(source.text):
        before = Source("", source.text[: found.start()]).lines
        what = f"a YAML file holds no character U+{ord(found[0]):04X}"
        raise fail("E0101", f"not valid YAML: {what}", Span(source, len(before), len(before[-1]) + 1))
    try:
        events = list(_guarded(source))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        span = _span(source, mark) if mark else None
        if "nesting depth" in str(error.problem):  # libyaml has its own limit since 0.2.6, met before the first event
            raise fail("E0102", _TOO_DEEP, span) from None
        raise fail("E0101", f"not valid YAML: {error.problem}", span, _yaml_hint(str(error.problem)), source.path) from None
    except yaml.YAMLError as error:
        raise fail("E0101", f"not valid YAML: {str(error).splitlines()[0]}", place=source.path) from None
    starts = [event for event in events if isinstance(event, yaml.DocumentStartEvent)]
    if not starts:
        raise fail("E0101", "the file is empty", place=source.path)
    if len(starts) > 1:
        raise fail("E0101", "not valid YAML: but found another document", _span(source, starts[1].start_mark))
    content = iter(events[2:])
    return _build(source, content, next(content), ())


def _yaml_hint(problem: str) -> str:
    flow = "expected ',' or" in problem or "mapping values are not allowed" in problem
    return "quote an expression that holds [ , : or { inside a flow mapping" if flow else ""


def _guarded(source: Source) -> Iterator[yaml.Event]:
    """The parser's events, up to the first that is not allowed."""
    depth = values = 0
    for event in yaml.parse(source.text, _LOADER):
        values += isinstance(event, yaml.NodeEvent)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise fail("E0102", "anchors and aliases are not allowed", _span(source, event.start_mark), "write the value out")
        if tag := getattr(event, "tag", None):
            raise fail("E0102", f"the tag {tag} is not allowed", _span(source, event.start_mark))
        if values > MAX_VALUES:
            raise fail("E0102", f"the file holds more than {MAX_VALUES} keys and values", _span(source, event.start_mark))
        if depth > MAX_DEPTH:
            raise fail("E0102", _TOO_DEEP, _span(source, event.start_mark))
        yield event


class _Mark(Protocol):
    line: int
    column: int


def _span(source: Source, mark: _Mark | None) -> Span:
    assert mark is not None  # parsers mark every event
    return Span(source, mark.line + 1, mark.column + 1)


def _build(source: Source, events: Iterator[yaml.Event], start: yaml.Event, path: Path, key_span: Span | None = None) -> Node:
    """The node that begins with the event `start`; takes its events up to its end."""
    span = _span(source, start.start_mark)
    if isinstance(start, yaml.ScalarEvent):
        style: str = start.style or ""
        return Node(start.value if style else _scalar(start.value, span), span, path, style, key_span)
    if isinstance(start, yaml.SequenceStartEvent):
        items: list[Node] = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            items.append(_build(source, events, event, (*path, len(items))))
        return Node(items, span, path, key_span=key_span)
    members: dict[str, Node] = {}
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        where = _span(source, event.start_mark)
        key = _key(event, members, where)
        members[key] = _build(source, events, next(events), (*path, key), where)
    return Node(members, span, path, key_span=key_span)


def _key(event: yaml.Event, members: dict[str, Node], where: Span) -> str:
    if not isinstance(event, yaml.ScalarEvent) or not str(event.value).isprintable():
        raise fail("E0102", "a key must be a plain word", where)
    key = str(event.value)
    if key.count("(") != key.count(")"):
        raise fail("E0101", f"the key '{key}' is a part of an expression", where, "quote an expression that holds a comma")
    if key in members:
        raise fail("E0103", f"the key '{key}' is given twice", where)
    return key


def _scalar(text: str, span: Span) -> str | int | float | None:
    """A plain scalar by YAML 1.2's core rules: `no`, dates and times stay text."""
    if text in ("true", "false"):
        return text == "true"
    if text in ("", "null", "~"):
        return None
    if _INTEGER.match(text):
        return _integer(text, span)
    if _FLOAT.match(text):
        return float(text)
    if re.match(r"[-+]?0[0-9]+\Z", text):
        raise fail("E0102", f"'{text}' reads as octal or decimal, depending on who reads it", span, "write 0o or no zero")
    return text


def _integer(text: str, span: Span) -> int:
    digits = text.replace("_", "")
    if len(digits) > MAX_DIGITS:
        raise fail("E0102", f"'{text[:MAX_DIGITS]}' is not a number this program can hold", span)
    return int(digits, 0)


def merged(*errors: UserError) -> UserError:
    """One error with every diagnostic, in order of place."""
    found: list[Diagnostic] = [d for error in errors for d in error.diagnostics]
    found.sort(key=lambda d: (d.span.line, d.span.column) if d.span else (0, 0))
    return UserError(*dict.fromkeys(found))


T = TypeVar("T")
S = TypeVar("S")
MAX_REPORTED = 20


class Findings:
    """Errors of steps that do not depend on each other; `settle` raises them together, in order of place."""

    def __init__(self) -> None:
        self._errors: list[UserError] = []

    def attempt(self, instead: T, make: Callable[[], T]) -> T:
        """The result of `make`, or `instead` after noting its error."""
        try:
            return make()
        except UserError as error:
            self._errors.append(error)
            return instead

    def note(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Notes diagnostics that a check yields; an error it raises is one more."""
        found: list[Diagnostic] = []
        self.attempt(None, lambda: found.extend(diagnostics))
        if found:
            self._errors.append(UserError(*found))

    def settle(self) -> None:
        """Raises UserError when anything was noted."""
        if self._errors:
            raise UserError(*merged(*self._errors).diagnostics[:MAX_REPORTED])


def gather(make: Callable[[S], T], items: Iterable[S]) -> list[T]:
    """`make` of every item. Raises one UserError with the diagnostics of all that failed."""
    findings = Findings()
    made: list[T] = []
    for item in items:
        findings.attempt(None, lambda item=item: made.append(make(item)))
    findings.settle()
    return made
