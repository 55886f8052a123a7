"""`toolchain.compile`: the stages of `tilewright build`, for a Python program."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING

from toolchain.api.compiled import Compiled
from toolchain.api.given import Given
from toolchain.spec.errors import fail
from toolchain.spec.suggest import nearest
from toolchain.tasks.plan import ROOT, plan_of
from toolchain.tasks.stage import Say
from toolchain.tasks.variables import PLACES, Variables
from toolchain.tasks.work import fulfil

if TYPE_CHECKING:
    import onnx


def compile_model(
    model: "str | Path | onnx.ModelProto",
    target: str | Path | Sequence[str | Path],
    *,
    dims: Mapping[str, int] | None = None,
    params: Mapping[str, int | str] | None = None,
    place: str = "",
    calibration: "Given | Path | None" = None,
    fallback: bool = True,
    schedule: str | Path = "",
    streams: int = 1,
    folder: str | Path = ROOT,
    say: Say | None = None,
) -> Compiled:
    """Compiles a model for a machine, and answers with where the bundle is and what it costs.

    model: a name, the path of an .onnx or .yaml file, or a model in memory. target: a machine's name, NAME:CONFIG, or the path of its
    file; several, the first choice first; or the path of a deployment.
    dims: sizes of open dimensions by name or as `input.axis`. params: parameters of the machine, of several MACHINE.NAME.
    place: `pays` for regions that save time, `all` for whatever the machine takes; where left out, what the model's file says.
    calibration: recorded inputs, [count, *shape] by name, or an .npz file of these; without them, what the model's file says, else made-up ones.
    fallback: whether the host may run what the machine cannot. schedule: the file of a region's schedule, or a folder of such files.
    streams: how many of the machine's share the work of every operation. folder: for all files; one build is done again only where something changed.
    say: is told what goes on. Raises UserError.
    """
    root = Path(folder).absolute()
    file = model if isinstance(model, str | Path) else _file(model, root)
    changed = tuple(sorted((name, str(value)) for name, value in (params or {}).items()))
    own = str(Path(schedule).absolute()) if schedule else ""
    targets = (str(target),) if isinstance(target, str | Path) else tuple(map(str, target))
    variables = Variables(targets, (str(file),), changed, _sizes(dims or {}), fallback, _place(place), schedule=own, streams=_streams(streams))
    if calibration is not None:
        variables = _calibrated(variables, calibration, root)
    plan = plan_of(variables, root)
    built = Compiled(plan.jobs[0], plan.steps[0], say or _silent)
    fulfil(built.steps["bundle"], built.say)
    return built


def _silent(text: str) -> None:
    del text


def _file(model: "onnx.ModelProto", root: Path) -> Path:
    from toolchain.api.given import model_file

    return model_file(model, root)


def _calibrated(variables: Variables, calibration: "Given | Path", root: Path) -> Variables:
    """Arguments and the file of the samples."""
    if isinstance(calibration, str | Path):
        return replace(variables, calibration=str(Path(calibration).absolute()))
    from toolchain.api.given import samples_file
    from toolchain.models.load import load_model

    inputs = load_model(variables.models[0], dict(variables.dims)).inputs
    return replace(variables, calibration=str(samples_file(calibration, list(inputs), root)))


def _sizes(dims: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Raises UserError E1202 for what is no size; numpy's whole numbers do as well."""
    return tuple(sorted((name, _size(name, size)) for name, size in dims.items()))


def _size(name: str, size: int) -> int:
    try:
        if index(size) >= 0:
            return index(size)
    except TypeError:
        pass
    raise fail("E1202", f"the dimension '{name}' cannot be {size!r}", hint="a size is a whole number, and 0 only of one axis, INPUT.AXIS")


def _streams(streams: int) -> int:
    try:
        if index(streams) > 0:
            return index(streams)
    except TypeError:
        pass
    raise fail("E1202", f"'streams' is a whole number from 1 on, not {streams!r}")


def _place(place: str) -> str:
    if place and place not in PLACES:
        raise fail("E1202", f"'place' is {' or '.join(PLACES)}, not {place!r}", hint=nearest(place, PLACES))
    return place
