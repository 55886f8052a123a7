"""Hashes of a machine: one of its architecture, which programs depend on, and one of each section."""

import hashlib
import json
import re
from typing import Any, cast

from toolchain.spec.model import Machine
from toolchain.spec.render import NOTES, render

ARCHITECTURE = ("topology", "memories", "views", "units", "encoding", "instructions", "functions", "numerics", "sync", "program")


def fingerprint(machine: Machine) -> str:
    """SHA-256 in hex of the architecture: what decides which bits a program has and what they do.

    Timing, layouts, quantisation, operators, host, documentation, sources, the severity of hazards, what outlives a program, how far
    apart the steps of a pipeline are and which instructions do nothing do not change it.
    """
    sections = render(machine, NOTES | {"timing", "hazard", "transient", "pipelined", "nops"})
    found = {name: _code(sections[name]) for name in ARCHITECTURE if name in sections}
    return _digest({"name": machine.name, "params": _params(machine, sections), **found})


def section_hashes(machine: Machine) -> dict[str, str]:
    """SHA-256 in hex of every section, without its documentation and sources."""
    return {name: _digest(_code(section)) for name, section in render(machine, NOTES).items() if name != "assumptions"}


def _params(machine: Machine, sections: dict[str, Any]) -> dict[str, Any]:
    """The parameters that semantics name; elsewhere their values are in place already."""
    texts = [machine.functions.text if machine.functions else "", *(i.semantics.text for i in machine.instructions)]
    words = {word for text in texts for word in re.findall(r"[A-Za-z_][A-Za-z0-9_]*", "\n".join(code_lines(text)))}
    return {name: value for name, value in sections.get("params", {}).items() if name in words}


def code_lines(text: str) -> list[str]:
    """A block's lines without comments, trailing blanks and empty lines; the language has no strings that hold a #."""
    lines = (line.partition("#")[0].rstrip() for line in text.splitlines())
    return [line for line in lines if line]


def _code(value: Any) -> Any:
    """The data with comments taken out of blocks of text."""
    if isinstance(value, dict):
        return {key: _code(item) for key, item in cast(dict[str, Any], value).items()}
    if isinstance(value, str) and "\n" in value:
        return code_lines(value)
    return value


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()
