"""Damaged copies of a text: bytes flipped, lines dropped, doubled and swapped, words replaced by others of the file."""

import re

from hypothesis import strategies as st

WORDS = ["0", "-1", "1 << 70"]
WORDS += ["~", "[]", "{}", "null", "true", "9" * 30, "x" * 70, "'", '"', "|", ">", "&a", "*a", "!t", "- ", "? ", ": ", "%", "@", "\t"]


@st.composite
def damaged(draw: st.DrawFn, text: str) -> str:
    """One to four mutations of `text`."""
    for _ in range(draw(st.integers(1, 4))):
        text = draw(st.sampled_from([_flip, _drop, _double, _swap, _replace]))(draw, text)
    return text


def _flip(draw: st.DrawFn, text: str) -> str:
    data = bytearray(text.encode())
    if data:
        data[draw(st.integers(0, len(data) - 1))] ^= draw(st.integers(1, 255))
    return data.decode(errors="replace")


def _drop(draw: st.DrawFn, text: str) -> str:
    lines = text.split("\n")
    start = draw(st.integers(0, len(lines) - 1))
    del lines[start : start + draw(st.integers(1, 3))]
    return "\n".join(lines)


def _double(draw: st.DrawFn, text: str) -> str:
    lines = text.split("\n")
    at = draw(st.integers(0, len(lines) - 1))
    return "\n".join([*lines[: at + 1], *lines[at:]])


def _swap(draw: st.DrawFn, text: str) -> str:
    lines = text.split("\n")
    a, b = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    lines[a], lines[b] = lines[b], lines[a]
    return "\n".join(lines)


def _replace(draw: st.DrawFn, text: str) -> str:
    words = list(re.finditer(r"[A-Za-z0-9_]+|[^\sA-Za-z0-9_]", text))
    if not words:
        return text
    old = words[draw(st.integers(0, len(words) - 1))]
    other = words[draw(st.integers(0, len(words) - 1))].group()
    new = draw(st.one_of(st.just(other), st.sampled_from(WORDS)))
    return text[: old.start()] + new + text[old.end() :]
