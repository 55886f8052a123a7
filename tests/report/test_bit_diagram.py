from toolchain.report.bit_diagram import bit_diagram
from toolchain.spec.model import Field


def test_two_words_with_a_hole() -> None:
    fields = [Field("opcode", 0, 3), Field("length", 8, 8), Field("address", 16, 16)]
    assert bit_diagram(fields, 32, 16) == "\n".join(
        [
            "word 0",
            " 15     8 7   3 2      0",
            "+--------+-----+--------+",
            "| length |  -  | opcode |",
            "+--------+-----+--------+",
            "word 1",
            " 15      0",
            "+---------+",
            "| address |",
            "+---------+",
        ]
    )


def test_single_bits_and_a_hole_at_the_bottom() -> None:
    text = bit_diagram([Field("go", 7, 1)], 8, 32)
    assert text.splitlines()[1].split() == ["7", "6", "0"]
    assert "| go |" in text
    assert text.splitlines()[3].rstrip().endswith("-  |")
