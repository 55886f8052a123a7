"""The toolchain's own version, which everything that it writes may name, and packages that some commands need."""

from importlib.util import find_spec

from toolchain.spec.errors import Span, fail

__version__ = "0.1.0"


def require_package(work: str, package: str, extra: str, module: str = "", span: Span | None = None) -> None:
    """Raises UserError E0009 where a package is not installed. work: that needs it, for the message. extra: of ours that brings it. module: where it
    has another name than the package."""
    if find_spec(module or package) is None:
        raise fail("E0009", f"{work} needs the package '{package}', which is not installed", span, f"pip install 'tilewright[{extra}]'")
