"""Files that stages write and later stages read: their paths, reports as text and JSON, and results read back."""

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from toolchain.spec.errors import UserError, fail
from toolchain.spec.files import write_atomic
from toolchain.spec.load import load_text
from toolchain.spec.model import Machine
from toolchain.spec.typed_json import Tree
from toolchain.tasks.folders import STUDIO
from toolchain.tasks.machines import deployed, deployment_of
from toolchain.tasks.receipts import Receipt, read_receipt
from toolchain.tasks.stage import Job

if TYPE_CHECKING:
    from toolchain.models.model import Model


def write_json(path: Path, data: Tree) -> Path:
    """Ends in one line feed. Raises UserError E0005."""
    write_atomic(path, (json.dumps(data, indent=1) + "\n").encode())
    return path


def write_report(path: Path, text: str, data: Tree) -> list[Path]:
    """The text, ending in one line feed, and the JSON beside it. Raises UserError E0005."""
    write_atomic(path, (text.rstrip() + "\n").encode())
    return [path, write_json(path.with_suffix(".json"), data)]


T = TypeVar("T")


def read_result(path: Path, read: Callable[[str], T]) -> T:
    """The file's text as `read` understands it. Raises UserError E1206 where the task did not write it so."""
    try:
        return read(path.read_text())
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise fail("E1206", "this is not as the task wrote it", hint="delete the file, and ask again", place=str(path)) from None


def onnx_file(job: Job) -> Path:
    """The float model."""
    return job.home("onnx") / "onnx" / f"{job.model}.onnx"


def sizes_file(job: Job) -> Path:
    """The sizes of its open dimensions."""
    return job.home("onnx") / "onnx" / "sizes.json"


def preparations_file(job: Job) -> Path:
    """How raw numbers become its inputs."""
    return job.home("onnx") / "onnx" / "preparations.json"


def table_file(job: Job) -> Path:
    """Its calibration table."""
    return job.home("calibration") / "calibration" / "calibration.json"


def graph_file(job: Job) -> Path:
    """The last stage of the graph: integers, the machine's part as regions. Raises as `graph_files`."""
    return graph_files(job)[-1]


def import_file(job: Job) -> Path:
    """The first stage: the float model with one operator set, every shape known, names as ONNX Runtime takes them. Raises as `graph_files`."""
    return graph_files(job)[0]


def graph_receipt(job: Job) -> Receipt | None:
    """None where the graph is not built."""
    return read_receipt(job.home("graph") / "graph.receipt.json")


def graph_files(job: Job) -> list[Path]:
    """The stages of the graph in their order, as their receipt lists them.

    Raises UserError E0001 where the graph is not built, E1205 for a further ONNX file among them, which would count as a stage by its name.
    """
    folder, receipt = job.home("graph") / "graph", graph_receipt(job)
    names = sorted(name for name in receipt.written if name.endswith(".onnx")) if receipt else []
    if not names:
        raise fail("E0001", "there are no stages of a graph here", hint="build the model first", place=str(folder))
    for path in sorted(folder.glob("*.onnx")):
        if path.name not in names:
            raise fail("E1205", "no stage of this build wrote this file", hint="move it elsewhere, or delete it", place=str(path))
    return [folder / name for name in names]


def lengths_file(job: Job) -> Path:
    """All lengths of a model in one bundle."""
    return job.folder / "lengths" / f"{job.model}.bundle"


def lengths_text_file(job: Job) -> Path:
    """The cost of each length."""
    return job.folder / "lengths" / "lengths.txt"


def schedule_file(job: Job, region: str) -> Path:
    """How a region runs."""
    return job.folder / "schedule" / f"{region}.yaml"


def subgraphs_file(job: Job) -> Path | None:
    """The sub-graphs of the regions; None where no batch is given, and regions are as they are."""
    return job.folder / "schedule" / "subgraphs.json" if job.variables.batch else None


def search_file(job: Job, region: str) -> Path:
    """The record of the search for a region's schedule."""
    return job.folder / "schedule" / f"{region}.search.json"


def bundle_file(job: Job) -> Path:
    """The model as the machine runs it."""
    return job.folder / "bundle" / f"{job.model}.bundle"


def infer_file(job: Job) -> Path:
    """The results of running the model's images."""
    return job.folder / "infer" / "infer.json"


def accuracy_file(job: Job) -> Path:
    """The accuracy that a build states."""
    return job.home("accuracy") / "accuracy" / "accuracy.json"


def verdict_file(job: Job) -> Path:
    """The verdict of verification in words; beside it the same as JSON."""
    return job.folder / "verify" / "verdict.txt"


def summary_file(job: Job) -> Path:
    """The summary of a build."""
    return job.folder / "summary" / "summary.txt"


def report_file(job: Job) -> Path:
    """The report: the summary with accuracy and exactness, and a line for each operation."""
    return job.folder / "report" / "report.txt"


def studio_file(job: Job) -> Path:
    """The page of the whole build, which no stage writes."""
    return job.folder / STUDIO


def explain_file(job: Job) -> Path:
    """Why each node is where it is."""
    return job.home("explain") / "explain" / "explain.txt"


class MachineSource(NamedTuple):
    """The text of a machine's file, its path, the configuration and the parameters. deployment: the text and the path of the file whose member
    `number` it is; both empty without one. without: kernels that are left out."""

    text: str
    path: str
    config: str
    params: tuple[tuple[str, str], ...]
    deployment: tuple[str, str]
    number: int
    without: tuple[str, ...]


def machines_of(job: Job) -> tuple[Machine, ...]:
    """The machines with the build's parameters and costs, the first choice first. Raises UserError E1210 for costs that are not known."""
    return tuple(machine_named(key) for key in machine_keys(job))


def machine_keys(job: Job) -> tuple[MachineSource, ...]:
    system = (job.deployment.text, str(job.deployment.path)) if job.deployment else ("", "")
    return tuple(MachineSource(t.text, str(t.path), t.config, t.params, system, number, t.without) for number, t in enumerate(job.targets))


@lru_cache(maxsize=8)
def machine_named(key: MachineSource) -> Machine:
    """One object for all stages of a build: caches of a machine go by the object."""
    machine = replace(load_text(key.text, key.path, key.config, dict(key.params)), without=key.without)
    return deployed(machine, deployment_of(*key.deployment), key.number) if any(key.deployment) else machine


def model_of(job: Job) -> "Model":
    """The model as its file declares it, calibrated as the build's variables say; of several lengths, samples are cut or filled up to this one.

    Raises UserError of a model file that is wrong, E0905 for a length of a dimension that is not open.
    """
    from toolchain.models.load import load_model
    from toolchain.models.samples import calibrated_by
    from toolchain.models.states import opened

    model, file = opened(load_model(str(job.path), dict(job.variables.dims)), job.lengths), job.variables.calibration
    return calibrated_by(model, Path(file)) if file else model


def sizes_of(job: Job) -> dict[str, int]:
    """Sizes of open dimensions by name."""
    found: dict[str, int] = json.loads(sizes_file(job).read_text())
    return found


@contextmanager
def blaming(job: Job) -> Generator[None]:
    """Errors of the copy of a model's ONNX file name the file that the user knows."""
    try:
        yield
    except UserError as error:
        copy, source = str(onnx_file(job)), str(_source(job))
        raise UserError(*(replace(d, place=source + d.place[len(copy) :]) if d.place.startswith(copy) else d for d in error.diagnostics)) from None


def _source(job: Job) -> Path:
    from toolchain.models.model import Stored

    origin = model_of(job).origin
    return origin.file if isinstance(origin, Stored) else job.path
