"""What a file assumes is listed with its place."""

from tests.spec.small import nodes, small
from toolchain.spec.sections.assumptions import assumptions


def test_every_form_of_the_mark() -> None:
    text = (
        "assumptions: [first]\na: {assumed: true, source: why, value: 3}\nb: [{assumed: because}]\n"
        "c: {assumed: [one, two]}\nd: {assumed: false}\ne: {assumed: {assumed: true}}\nf: {g: {assumed: true, doc: note}}\nh: {assumed: true}\n"
    )
    assert assumptions(nodes(text)) == ("first", "a = 3: why", "b.0: because", "c: one", "c: two", "e.assumed", "f.g: note", "h")


def test_of_a_machine() -> None:
    assert small().assumptions == ("timing.constants.START = 8: a guess",)
