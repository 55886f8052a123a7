"""The small good machine, and edited copies of it."""

from collections.abc import Mapping
from pathlib import Path

from toolchain.spec.errors import Source
from toolchain.spec.load import load_text
from toolchain.spec.model import Machine
from toolchain.spec.yaml_nodes import Node, parse_yaml

GOOD = (Path(__file__).resolve().parents[1] / "golden" / "machine_faults" / "good.yaml").read_text()


def edited(*edits: tuple[str, str]) -> str:
    """The file's text with each (old, new) replaced; every old text must stand in it."""
    text = GOOD
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return text


def small(*edits: tuple[str, str], config: str = "", overrides: Mapping[str, str] | None = None) -> Machine:
    return load_text(edited(*edits), "small.yaml", config, overrides)


def nodes(text: str) -> Node:
    return parse_yaml(Source("t.yaml", text))
