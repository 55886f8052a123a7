"""Mistakes of independent steps are told together, in order of place."""

import pytest

from toolchain.spec.errors import Diagnostic, Source, Span, UserError, fail
from toolchain.spec.findings import Findings, gather

SOURCE = Source("a", "x\n" * 9)


def at(line: int) -> UserError:
    return fail("E0107", f"line {line}", Span(SOURCE, line, 1))


def bad(line: int) -> int:
    raise at(line)


def test_attempt_and_settle() -> None:
    findings = Findings()
    assert findings.attempt(0, lambda: 5) == 5
    findings.settle()
    assert findings.attempt(0, lambda: bad(7)) == 0
    findings.note([Diagnostic("E0107", "line 2", Span(SOURCE, 2, 1))])
    with pytest.raises(UserError) as caught:
        findings.settle()
    assert [d.message for d in caught.value.diagnostics] == ["line 2", "line 7"]


def test_gather_runs_all() -> None:
    assert gather(lambda n: n + 1, [1, 2]) == [2, 3]
    with pytest.raises(UserError) as caught:
        gather(lambda n: bad(n) if n % 2 else n, [5, 2, 3])
    assert [d.message for d in caught.value.diagnostics] == ["line 3", "line 5"]
