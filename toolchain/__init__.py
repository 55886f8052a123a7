"""tilewright: the software stack of a DNN accelerator, made from one YAML file.

`toolchain.compile(model, target)` makes a bundle of a model, `toolchain.load(bundle).run(inputs)` runs it; mistakes are `toolchain.UserError`.
"""

TYPE_CHECKING = False
"""As in `typing`, which takes most of the time that this file would take to read."""
if TYPE_CHECKING:
    from typing import Any

    from toolchain.api.compile import calibrate_in_use
    from toolchain.api.compile import compile_model as compile  # noqa: A004
    from toolchain.api.model import Compiled, InUse, Loaded
    from toolchain.api.model import load_bundle as load
    from toolchain.spec.errors import UserError
    from toolchain.spec.packages import __version__

__all__ = ["Compiled", "InUse", "Loaded", "UserError", "__version__", "calibrate_in_use", "compile", "load"]

_PLACES = {
    "__version__": ("toolchain.spec.packages", "__version__"),
    "Compiled": ("toolchain.api.model", "Compiled"),
    "InUse": ("toolchain.api.model", "InUse"),
    "Loaded": ("toolchain.api.model", "Loaded"),
    "UserError": ("toolchain.spec.errors", "UserError"),
    "calibrate_in_use": ("toolchain.api.compile", "calibrate_in_use"),
    "compile": ("toolchain.api.compile", "compile_model"),
    "load": ("toolchain.api.model", "load_bundle"),
}
"""Names that are imported when they are first asked for: `import toolchain` alone is needed by every command, and is free."""


def __getattr__(name: str) -> "Any":
    if name not in _PLACES:
        raise AttributeError(f"module 'toolchain' has no attribute '{name}'")
    from importlib import import_module

    module, attribute = _PLACES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
