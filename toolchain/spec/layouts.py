"""Section layouts."""

from toolchain.spec.context import Context
from toolchain.spec.model import Layout


def layouts(context: Context) -> tuple[Layout, ...]:
    del context
    return ()
