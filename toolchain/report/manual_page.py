"""The instruction set manual as one self-contained page: contents, a block diagram, formats drawn to scale of their names."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from jinja2 import Environment
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from toolchain.isa.assembly import Example
from toolchain.report.manual import NONE, bit_cells, manual_markdown
from toolchain.report.pictures import BLOCK_TALL, BLOCK_WIDE, machine_picture
from toolchain.report.tables import html_environment
from toolchain.spec.model import Instruction, Machine

LETTER, AROUND = 8, 14
"""Pixels of a letter of a field's name, and around the name."""
LOWEST, DEEPEST = 2, 3
"""Levels of headings that the contents list."""


@dataclass(frozen=True)
class Cell:
    """One field of a word, or a hole, `-`. x, width: pixels. high, low: bits inside the word."""

    name: str
    high: int
    low: int
    x: int
    width: int


@dataclass(frozen=True)
class Heading:
    """level: 2 or 3. link: of the place in the page."""

    level: int
    text: str
    link: str


def manual_html(machine: Machine, examples: Mapping[str, Example] = NONE) -> str:
    """The manual as one self-contained HTML file. examples: as for `manual_markdown`."""
    environment = html_environment()
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    renderer = _Renderer(reader, environment, machine)
    tokens = reader.parse(manual_markdown(machine, examples))
    headings = _linked(tokens)
    body = renderer.render(tokens, reader.options, {})
    start = body.index("<h2")  # the contents stand behind the summary
    picture, size = machine_picture(machine), (BLOCK_WIDE, BLOCK_TALL)
    return environment.get_template("manual.html.j2").render(
        label=machine.name, headings=headings, picture=picture, number=0, size=size, summary=body[:start], body=body[start:]
    )


def _linked(tokens: Sequence[Token]) -> list[Heading]:
    """Gives each heading a place of its own that the contents can name."""
    found, taken = list[Heading](), set[str]()
    for token, inside in pairwise(tokens):
        level = int(token.tag[1:]) if token.type == "heading_open" else 0
        if LOWEST <= level <= DEEPEST:
            link = re.sub(r"\W+", "-", inside.content.lower()).strip("-")
            while link in taken:
                link += "-"
            taken.add(link)
            token.attrSet("id", link)
            found.append(Heading(level, inside.content, link))
    return found


class _Renderer(RendererHTML):
    """Draws the boxes of an instruction's bits in place of their text."""

    def __init__(self, parser: MarkdownIt, environment: Environment, machine: Machine) -> None:
        super().__init__(parser)
        self.environment, self.machine = environment, machine

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:  # named by the library, as its arguments are
        kind, _, name = tokens[idx].info.strip().partition(" ")
        if kind != "bits" or name not in self.machine.instruction:
            return super().fence(tokens, idx, options, env)
        words = bit_rows(self.machine.instruction[name], self.machine)
        width = max(word[-1].x + word[-1].width for word in words)
        return self.environment.get_template("bits.svg.j2").render(name=name, words=words, width=width)


def bit_rows(instruction: Instruction, machine: Machine) -> list[list[Cell]]:
    """The words of an instruction, each from its most significant field on."""
    bits, total = machine.encoding.unit_bytes * 8, instruction.bytes * 8
    rows: list[list[Cell]] = []
    for first in range(0, total, bits):
        row, x = list[Cell](), 0
        for name, high, low in bit_cells(instruction.fields, first, min(bits, total - first)):
            width = max(len(name), len(f"{high} {low}")) * LETTER + AROUND
            row.append(Cell(name, high, low, x, width))
            x += width
        rows.append(row)
    return rows
