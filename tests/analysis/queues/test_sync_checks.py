"""What one order of execution does not show: an end that may come too early, a flag that may lose a token."""

from dataclasses import replace

from tests.token_machine import mask, program, token_machine
from toolchain.analysis.queues.clocks import happens_before
from toolchain.analysis.queues.order import issue_order
from toolchain.analysis.queues.sync_checks import sync_faults
from toolchain.isa.program import Program
from toolchain.isa.sync_tokens import sync_tokens
from toolchain.spec.model import Machine


def faults(code: Program) -> list[str]:
    tokens = sync_tokens(code)
    order = issue_order(code, None, tokens)
    return [d.headline() for d in sync_faults(code, tokens, order, happens_before(code, order, tokens))]


def ending(machine: Machine) -> Machine:
    """A second instruction END, on unit a, that must be the last to run."""
    end = replace(machine.instruction["OP"], name="END")
    rules = tuple(replace(r, instructions=("OP", "END")) for r in machine.sync)
    return replace(machine, instructions=(*machine.instructions, end), sync=rules, program=replace(machine.program, ends="END", last=True))


def with_end(*rows: dict[str, int]) -> Program:
    """The last row is the END."""
    code = program(ending(token_machine()), rows)
    kind, n = code.kind.copy(), len(rows) - 1
    kind[-1] = 1
    columns = tuple({k: v[part] for k, v in code.columns[0].items()} for part in (slice(0, n), slice(n, None)))
    row = code.row.copy()
    row[-1] = 0
    return replace(code, kind=kind, row=row, columns=columns)


def test_an_end_that_waits_for_every_unit_is_fine() -> None:
    assert faults(with_end({"unit": 1, "posts": mask("ba")}, {"unit": 0}, {"unit": 0, "waits": mask("ba")})) == []


def test_an_end_that_another_unit_may_outlive() -> None:
    assert faults(with_end({"unit": 1}, {"unit": 0})) == [
        "E0506 #1 END at 0x10 must be the last to run, but #0 OP at 0x0 may still be under way; let it wait for unit b"
    ]


def test_a_token_that_came_earlier_does_not_cover_what_follows() -> None:
    found = faults(with_end({"unit": 1, "posts": mask("ba")}, {"unit": 1}, {"unit": 0, "waits": mask("ba")}))
    assert found[0].startswith("E0506 #2 END at 0x20 must be the last to run, but #1 OP at 0x10")


FLAGS = {"ab": ", mode: flag"}


def test_a_flag_posted_twice_without_an_answer_may_lose_a_token() -> None:
    rows = [{"unit": 0, "posts": mask("ab")}, {"unit": 1, "waits": mask("ab")}, {"unit": 0, "posts": mask("ab")}, {"unit": 1, "waits": mask("ab")}]
    (found,) = faults(program(token_machine(FLAGS), rows))
    assert found.startswith("E0504 #2 OP at 0x20 may post to the flag ab before #1 OP at 0x10 took the token before: one is lost")


def test_a_flag_that_is_answered_before_the_next_post_is_fine() -> None:
    rows = [
        {"unit": 0, "posts": mask("ab")},
        {"unit": 1, "waits": mask("ab"), "posts": mask("ba")},
        {"unit": 0, "waits": mask("ba"), "posts": mask("ab")},
        {"unit": 1, "waits": mask("ab")},
    ]
    assert faults(program(token_machine(FLAGS), rows)) == []
