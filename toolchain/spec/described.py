"""The boundary between what a user describes and what is computed from it: an exception on the way becomes a line at the description."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

from toolchain.spec.errors import Span, UserError, fail

FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, NotImplementedError, RecursionError, TypeError, ValueError)
"""What code raises that is given numbers, names or shapes which contradict each other."""


@contextmanager
def described(span: Span | None, subject: str, also: tuple[type[Exception], ...] = ()) -> Generator[None]:
    """Everything inside follows from a description at `span`. subject: what is done with it, for the message. also: exceptions of other libraries.

    Raises UserError E1308 in place of an exception that says that the description contradicts itself. Messages without a place of their own, such as
    those of a program that follows from the description, get this one.
    """
    try:
        yield
    except UserError as error:
        placed = [each if each.span or each.place else replace(each, span=span, message=f"{subject}: {each.message}") for each in error.diagnostics]
        raise UserError(*placed) from error
    except (*FAULTS, *also) as error:
        raise fail(
            "E1308", f"{subject} fails: {_reason(error)}", span, hint="the names, shapes or numbers of the description do not fit each other"
        ) from error


def _reason(error: Exception) -> str:
    match error:
        case KeyError():
            return f"{error} is not known"
        case MemoryError():
            return "it takes more memory than there is"
        case RecursionError():
            return "it is nested too deeply, or needs itself"
        case _:
            return f"{error} ({type(error).__name__})" if str(error) else type(error).__name__
