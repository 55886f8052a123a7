"""`toolchain.compile`: the stages of `tilewright build`, for a Python program."""

import hashlib
import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from google.protobuf.message import EncodeError
from numpy.typing import ArrayLike

from toolchain.api.model import Compiled
from toolchain.spec.arrays import Array
from toolchain.spec.errors import fail
from toolchain.spec.files import write_atomic
from toolchain.spec.search_policies import EFFORT, SEARCH, check_policy
from toolchain.tasks.plan import ROOT, plan_of
from toolchain.tasks.stage import Say
from toolchain.tasks.variables import Variables, check_choice
from toolchain.tasks.work import fulfil

if TYPE_CHECKING:
    import onnx

    from toolchain.api.model import InUse


Given = ArrayLike | Mapping[str, ArrayLike]
FOLDER = "given"
NAME_LENGTH = 60
DIGITS = 12


def model_file(model: "onnx.ModelProto", root: Path) -> Path:
    """An ONNX file of a model in memory, below `root`. Raises UserError E0005 (cannot write), E0807 for one of more than 2 GB."""
    try:
        data = model.SerializeToString(deterministic=True)
    except (ValueError, EncodeError) as error:
        text = f"the model cannot be written: {error}"
        raise fail("E0807", text, hint="save it with its weights as external data, and give the file's path") from None
    name = re.sub(r"[^\w.+-]", "_", model.graph.name)[:NAME_LENGTH].strip(".") or "model"
    return _written(root, f"{name}-{_digest(data)}.onnx", data)


def samples_file(calibration: Given, inputs: list[str], root: Path) -> Path:
    """An .npz file of recorded inputs, by the names of the inputs; a single array belongs to the only one.

    Raises UserError E0808 for arrays of other names, and for values that are no array of numbers or texts.
    """
    named = calibration if isinstance(calibration, Mapping) else dict.fromkeys(inputs[:1], calibration)
    if sorted(named) != sorted(inputs):
        given = ", ".join(named) if isinstance(calibration, Mapping) else "one array without a name"
        raise fail("E0808", f"the model's inputs are {', '.join(inputs)}; calibration holds {given}", hint="give one array of samples by each name")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, values in sorted(named.items()):
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), _npy(name, values))
    return _written(root, f"samples-{_digest(buffer.getvalue())}.npz", buffer.getvalue())


def _npy(name: str, values: ArrayLike) -> bytes:
    array: Array = np.asarray(values)
    if array.dtype.kind == "O" and all(isinstance(part, str) for part in array.flat):
        array = array.astype(np.str_)
    if array.dtype.kind not in "biufU":
        raise fail("E0808", f"'{name}' is {array.dtype}, not numbers")
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:DIGITS]


def _written(root: Path, name: str, data: bytes) -> Path:
    path = root / FOLDER / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise fail("E0005", f"cannot make the folder: {error.strerror}", place=str(path.parent)) from None
    write_atomic(path, data)
    return path


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
    images: int = 0,
    batch: int = 0,
    objective: str = "",
    search: str = SEARCH,
    effort: int = EFFORT,
    folder: str | Path = ROOT,
    say: Say | None = None,
) -> Compiled:
    """Compiles a model for a machine; the answer has the bundle and its costs.

    model: a name, the path of an .onnx or .yaml file, or a model in memory. target: a machine's name, NAME:CONFIG, or the path of its
    file; several, the first choice first; or the path of a deployment.
    dims: sizes of open dimensions by name or as `input.axis`. params: parameters of the machine, of several MACHINE.NAME.
    place: `pays` for regions that save time, `all` for whatever the machine takes; where left out, as the model's file says.
    calibration: recorded inputs, [count, *shape] by name, or an .npz file of these; without them those of the model's file, else made-up ones.
    fallback: whether the host may run nodes that the machine cannot. schedule: the file of a region's schedule, or a folder of such files.
    streams: how many of the machine's share the work of every operation. images: how many a run takes, each on so many streams of its own; 0: as few
    as the machine can. batch: how many come at once, for which regions are cut into sub-graphs with images and streams of their own; 0: regions as
    they are. objective: `latency`, as a batch of 1, or `throughput`, of `batch` or of as many samples as the machine runs side by side.
    search: the policy that proposes schedules. effort: how many are timed exactly.
    folder: for all files; one build is done again only where something changed.
    say: is told each step. Raises UserError.
    """
    root, own = Path(folder).absolute(), str(Path(schedule).absolute()) if schedule else ""
    sizes, changed = _sizes(dims or {}), _changed(params or {})
    runs, several = _count("streams", streams, 1), _count("images", images, 0)
    variables = Variables(
        _targets(target), (_model(model, root),), changed, sizes, fallback, check_choice("place", place), schedule=own, streams=runs,
        images=several, batch=_count("batch", batch, 0), objective=check_choice("objective", objective),
        search=check_policy(search), effort=_count("effort", effort, 0),
    )  # fmt: skip
    built = _planned(variables if calibration is None else _calibrated(variables, calibration, root), root, say)
    fulfil(built.steps["bundle"], built.say)
    return built


def calibrate_in_use(
    model: "str | Path | onnx.ModelProto",
    target: str | Path | Sequence[str | Path],
    *,
    samples: int = 64,
    dims: Mapping[str, int] | None = None,
    params: Mapping[str, int | str] | None = None,
    place: str = "",
    folder: str | Path = ROOT,
    say: Say | None = None,
) -> "InUse":
    """A model that runs at once: in ONNX Runtime until it has seen so many samples, which then calibrate it, and on the machine from then on.

    samples: how many; other arguments as in `toolchain.compile`. Raises UserError.
    """
    from toolchain.api.model import in_use

    root = Path(folder).absolute()

    def again(seen: "Mapping[str, Array]") -> Compiled:
        return compile_model(model, target, dims=dims, params=params, place=place, calibration=seen, folder=folder, say=say)

    variables = Variables(_targets(target), (_model(model, root),), _changed(params or {}), _sizes(dims or {}), True, check_choice("place", place))
    return in_use(_planned(variables, root, say), again, samples)


def _planned(variables: Variables, root: Path, say: Say | None) -> Compiled:
    """A build of which nothing is done yet. Raises UserError E1202 for a model of several lengths."""
    plan = plan_of(variables, root)
    if plan.joined:
        hint = f"give one, such as dims={plan.jobs[-1].sizes}; `tilewright build` makes the bundle of all, which toolchain.load runs"
        raise fail("E1202", f"the model has {len(plan.jobs)} lengths, and this builds one", hint=hint)
    return Compiled(plan.jobs[0], plan.steps[0], say or _silent)


def _targets(target: str | Path | Sequence[str | Path]) -> tuple[str, ...]:
    return (str(target),) if isinstance(target, str | Path) else tuple(map(str, target))


def _model(model: "str | Path | onnx.ModelProto", root: Path) -> str:
    """The name or path of a model; one in memory is written below `root`."""
    return str(model if isinstance(model, str | Path) else _file(model, root))


def _changed(params: Mapping[str, int | str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, str(value)) for name, value in params.items()))


def _silent(text: str) -> None:
    del text


def _file(model: "onnx.ModelProto", root: Path) -> Path:

    return model_file(model, root)


def _calibrated(variables: Variables, calibration: "Given | Path", root: Path) -> Variables:
    """Arguments and the file of the samples."""
    if isinstance(calibration, str | Path):
        return replace(variables, calibration=str(Path(calibration).absolute()))
    from toolchain.models.load import load_model

    inputs = load_model(variables.models[0], dict(variables.dims)).given
    return replace(variables, calibration=str(samples_file(calibration, list(inputs), root)))


def _sizes(dims: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Raises UserError E1202 for a value that is no size; numpy's whole numbers do as well."""
    return tuple(sorted((name, _size(name, size)) for name, size in dims.items()))


def _size(name: str, size: int) -> int:
    try:
        if index(size) >= 0:
            return index(size)
    except TypeError:
        pass
    raise fail("E1202", f"the dimension '{name}' cannot be {size!r}", hint="a size is a whole number, and 0 only of one axis, INPUT.AXIS")


def _count(name: str, given: int, least: int) -> int:
    try:
        if index(given) >= least:
            return index(given)
    except TypeError:
        pass
    raise fail("E1202", f"'{name}' is a whole number from {least} on, not {given!r}")
