"""The manual as a page: nothing of a machine's text becomes markup, every heading is in the contents, and formats have all fields in order."""

import re
from pathlib import Path

import pytest

from toolchain.isa.assembly import assemble, examples_of
from toolchain.report.manual import manual_markdown
from toolchain.report.manual_page import bit_rows, manual_html
from toolchain.spec.errors import Source
from toolchain.spec.load import list_targets, load_file, load_machine

RIPPLE = Path(__file__).resolve().parents[1] / "data" / "machines" / "ripple.yaml"


def test_one_page_without_markup_from_the_machine(tmp_path: Path) -> None:
    path = tmp_path / "evil.yaml"
    path.write_text(RIPPLE.read_text().replace("A streaming filter", "<script>alert(1)</script>"))
    page = manual_html(load_file(path))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert '<h3 id="fir">FIR</h3>' in page
    assert not re.search(r"(src|href)=[\"']?https?:", page)


def test_the_contents_name_every_heading_once() -> None:
    machine = load_machine("gemmini")
    page = manual_html(machine)
    links, places = (re.findall(pattern, page) for pattern in (r'<a href="#([^"]+)"', r'<h[23] id="([^"]+)"'))
    assert links == places
    assert len(set(places)) == len(places) > len(machine.instructions)
    assert page.index("<nav") < page.index("block diagram of gemmini") < page.index('id="parameters"')


@pytest.mark.parametrize("name", [name for name in list_targets() if load_machine(name).instructions])
def test_the_bits_of_every_instruction_are_drawn(name: str) -> None:
    machine = load_machine(name)
    for instruction in machine.instructions:
        words = bit_rows(instruction, machine)
        unit = machine.encoding.unit_bytes * 8
        drawn = [word * unit + bit for word, row in enumerate(words) for cell in row for bit in range(cell.low, cell.high + 1)]
        assert sorted(drawn) == list(range(instruction.bytes * 8))
        for row in words:
            assert [cell.x for cell in row] == [sum(before.width for before in row[:place]) for place in range(len(row))]


def test_examples_of_a_program_stand_at_their_instructions() -> None:
    machine = load_machine("gemmini")
    program = assemble(machine, Source("p.asm", "FLUSH\nCONFIG_EX dataflow=ws\nCONFIG_EX dataflow=os\n"))
    for text in (manual_markdown(machine, examples_of(program)), manual_html(machine, examples_of(program))):
        config = text.index("CONFIG_EX dataflow=ws")
        assert text.index("How the array computes") < config < text.index("One of three sets of strides")
        assert program.streams[0][24:48].hex(" ") in text
        assert "CONFIG_EX dataflow=os" not in text
