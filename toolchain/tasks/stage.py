"""The stages of a build in order, and a stage of one model on its machines: its dependencies, its files and its action."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType

from toolchain.models.files import list_models
from toolchain.spec.fingerprint import words_of
from toolchain.spec.search_policies import EFFORT, SEARCH
from toolchain.tasks.machines import Deployment, Target, chosen, folder_name, from_elsewhere, path_name
from toolchain.tasks.receipts import Receipt, SeenFile, digest_of, read_receipt, seen
from toolchain.tasks.variables import SEPARATOR, Variables

GRAPH_LIBRARIES = ("numpy", "onnx", "onnx-ir", "onnxruntime")
SHARED = ("onnx", "calibration")
"""Stages whose results no machine changes."""
EVERY = ("calibration", "place", "schedule", "streams", "images", "batch", "search", "effort")
NAMING: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"onnx": (), "calibration": EVERY[:1], **dict.fromkeys(("graph", "accuracy", "explain"), EVERY[:2])}
)
"""Options that are in the names of a stage's folder; those of other stages have all of EVERY."""
PLAIN: Mapping[str, str | int] = MappingProxyType({"streams": 1, "images": 0, "batch": 0, "search": SEARCH, "effort": EFFORT})
"""Options that are no files, with the values that leave no mark in a name."""


@dataclass(frozen=True)
class Stage:
    """doc: its results in words. packages: the toolchain's own code that it can reach. libraries: others' whose results may differ from version to
    version.

    after: stages whose results it reads. of_model: its files depend on no machine; those of any other stage depend on all of it, kernels and
    templates included. untimed: but of its timing only on the part that placing operations reads (`placing_hash`), and of the parameters only on
    those that some text names, so that builds in other folders may have the same results (`twins`). notes: they also show the text that the
    machine's file has for people alone. reads_model: it reads the model file. options: variables that it reads. edited: users may be tempted to
    change its files in place, which is refused.
    action: `module:function` below toolchain.tasks.actions.
    """

    name: str
    doc: str
    action: str
    packages: tuple[str, ...]
    libraries: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    of_model: bool = False
    untimed: bool = False
    notes: bool = False
    options: tuple[str, ...] = ()
    reads_model: bool = False
    edited: bool = False


@dataclass(frozen=True)
class Job:
    """One model on one machine, or on several, the first choice first. model: its name for folders. given: as the user named it. path: its file.
    root: of all builds. deployment: the system that the machines are parts of, where one was given. like: the same model in the sizes in which it is
    quantised, where this is one of several lengths and not that one; None for any other. lengths: the dimensions of which there are several."""

    model: str
    given: str
    path: Path
    targets: tuple[Target, ...]
    variables: Variables
    root: Path
    deployment: Deployment | None = None
    like: "Job | None" = None
    lengths: tuple[str, ...] = ()

    @property
    def target(self) -> Target:
        """The first choice."""
        return self.targets[0]

    @property
    def machines(self) -> str:
        """Their names, or the deployment's, for folders and for messages."""
        if self.deployment is None:
            return "+".join(target.label for target in self.targets)
        name, path = self.deployment.name, self.deployment.path
        return name + from_elsewhere(name, path) + "".join(f"+{name}-{value}" for name, value in self.variables.params)

    @property
    def folder(self) -> Path:
        """The folder of the programs and of every result of theirs."""
        return self.home("bundle")

    @property
    def label(self) -> str:
        """The model's name for folders, with the sizes of its open dimensions; different for each file."""
        where = "" if self.path.is_relative_to(self.root) else path_name(Path(self.given).parent) or self._copy
        sizes = "".join(f"+{name}-{size}" for name, size in self.variables.dims)
        return folder_name(self.model + (where and f"@{where}") + sizes + self._likeness)

    @cached_property
    def _copy(self) -> str:
        """The name of a file here that is not the model which commands find by that name."""
        known = list_models().get(self.model)
        return "" if known is None or known.resolve() == self.path.resolve() else self.path.name

    @property
    def _likeness(self) -> str:
        """The sizes in which it is quantised, where they are others; or the sizes of all lengths."""
        if self.variables.lengths:
            return "".join(f"+{name}-{'-'.join(map(str, sizes))}" for name, sizes in self.variables.lengths)
        there = () if self.like is None else self.like.sizes.values()
        return "-as-" * bool(there) + "-".join(map(str, there))

    @property
    def sizes(self) -> dict[str, int]:
        """By dimension of which there are several, the size that it is built in."""
        return {name: size for name, size in self.variables.dims if name in self.lengths}

    @property
    def at(self) -> str:
        """Which of several lengths it is, `sequence 64`; empty for the only one."""
        return ", ".join(f"{name} {size}" for name, size in self.sizes.items())

    @property
    def unguided(self) -> Path:
        """The folder of the same build without a schedule of the user's."""
        return replace(self, variables=replace(self.variables, schedule="")).folder

    def home(self, stage: str) -> Path:
        """The folder of a stage: named by the options that its results depend on, so that builds share all before the first that differs."""
        if self.like is not None and stage == "calibration":
            return self.like.home(stage)
        options = "".join(chosen(name, self._option(name)) for name in NAMING.get(stage, EVERY))
        return self.root / ("models" if stage in SHARED else self.machines) / f"{self.label}{options}"

    def _option(self, name: str) -> str:
        """The value of an option in a folder's name; empty where it was not given."""
        value = getattr(self.variables, name)
        if name in PLAIN:
            return "" if value == PLAIN[name] else str(value)
        if not value or name == "place":
            return str(value)
        path = Path(value).with_suffix("")
        return path.name if path.is_relative_to(self.root) else path_name(path)


@dataclass(frozen=True)
class Step:
    """A stage of a job. code: hash of each package and library. before: the steps whose results it reads."""

    stage: Stage
    job: Job
    code: Mapping[str, str]
    before: tuple["Step", ...] = ()

    @property
    def title(self) -> str:
        """As messages print it."""
        return f"{self.stage.name} {self.job.model}{self.job.at and f' {self.job.at}'}" + ("" if self.stage.of_model else f" for {self.job.machines}")

    @property
    def home(self) -> Path:
        """The folder that one build at a time works in."""
        return self.job.home(self.stage.name)

    @property
    def folder(self) -> Path:
        """The stage's own: whatever is there and not in its receipt is waste."""
        return self.home / self.stage.name

    @property
    def receipt_path(self) -> Path:
        return self.home / f"{self.stage.name}.receipt.json"

    @property
    def chain(self) -> tuple["Step", ...]:
        """The step's dependences and the step itself, each once, in topological order."""
        found = {(each.stage.name, each.job.label): each for before in self.before for each in before.chain}
        return (*found.values(), self)

    def receipt(self) -> Receipt | None:
        return read_receipt(self.receipt_path)

    def files(self) -> dict[Path, SeenFile]:
        """The user's files that it reads in any case, as they are now: the model's file, everything in the machine's folder."""
        paths = [self.job.path] if self.stage.reads_model else []
        paths += [] if self.stage.of_model else [path for target in self.job.targets for path in _inside(target.folder)]
        return seen(*paths, *self._given_schedule())

    def _given_schedule(self) -> list[Path]:
        """The user's own schedules."""
        if "schedule" not in self.stage.options or not self.job.variables.schedule:
            return []
        path = Path(self.job.variables.schedule)
        return _inside(path) if path.is_dir() else [path]

    def parts(self, files: Mapping[Path, SeenFile] | None = None) -> dict[str, str]:
        """The hash of everything that the stage depends on, by name; the results of the steps before must be there."""
        files = self.files() if files is None else files
        found = {f"code {name}": self.code[name] for name in (*self.stage.packages, *self.stage.libraries)}
        found |= {f"option {name}": repr(getattr(self.job.variables, name)) for name in self.stage.options}
        if self.stage.reads_model:
            found["model file"] = files[self.job.path].digest
        if given := self._given_schedule():
            found["schedule file"] = digest_of({path.name: files[path].digest for path in given})
        if not self.stage.of_model:
            for target in self.job.targets:
                found |= {_of_machine(name, target, self.job): digest for name, digest in self._machine_parts(target, files).items()}
            if self.job.deployment:
                found["deployment"] = self.job.deployment.digest
        for step in self.before:
            receipt = step.receipt()
            found[f"stage {step.stage.name}{f' {step.job.at}' if step.job.label != self.job.label else ''}"] = receipt.result if receipt else "none"
        return found

    def _machine_parts(self, target: Target, files: Mapping[Path, SeenFile]) -> dict[str, str]:
        """Digests of the parts of a machine that the stage reads."""
        folder, sections = target.folder, dict(target.sections)
        if self.stage.untimed:
            words = frozenset[str]().union(*(_words(path, entry.digest) for path, entry in files.items() if path.is_relative_to(folder)))
            sections |= {"timing": target.placing, "params": target.chosen_params(words)}
        found = {f"section {name}": digest for name, digest in sections.items()}
        found["section kernels"] = digest_of({str(path.relative_to(folder)): files[path].digest for path in files if path.is_relative_to(folder)})
        found |= {"kernels left out": SEPARATOR.join(target.without)} if target.without else {}
        return found | ({"notes": target.notes, "command": target.command} if self.stage.notes else {})

    def changes(self) -> list[str]:
        """Why the stage must run; empty where it needs not."""
        receipt = self.receipt()
        return receipt.changes(self.parts(), self.folder) if receipt else ["first time"]


@lru_cache(maxsize=256)
def _words(path: Path, _digest: str) -> frozenset[str]:
    """All that a file could name, read once for each content."""
    try:
        return words_of(path.read_bytes().decode("utf-8", "replace"))
    except OSError:
        return frozenset()


def _of_machine(part: str, target: Target, job: Job) -> str:
    return part if len(job.targets) == 1 else f"{part} of {target.name}"


def _inside(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else []


Say = Callable[[str], None]
"""Tells the user the present step."""


_GRAPH = ("spec", "schemas", "operations", "graph", "passes")
_MACHINE = (*_GRAPH, "isa", "analysis", "abi", "emulator", "timing", "templates", "schedule")
_RUNNING = (*_MACHINE, "codegen", "runtime", "verify", "models", "accuracy")
_REPORT = (*_RUNNING, "report")

STAGES = (
    Stage(
        "onnx",
        "the model as an ONNX file",
        "graph:make_onnx",
        ("spec", "schemas", "operations", "isa", "graph", "models"),
        ("numpy", "onnx"),
        of_model=True,
        reads_model=True,
        options=("dims",),
    ),
    Stage(
        "calibration",
        "the calibration table: what the model's samples do in floating point",
        "graph:calibrate_model",
        (*_GRAPH, "isa", "models"),
        GRAPH_LIBRARIES,
        after=("onnx",),
        of_model=True,
        reads_model=True,
        options=("dims", "calibration"),
    ),
    Stage(
        "graph",
        "an ONNX file after every pass, the last in integers and partitioned",
        "graph:make_graph",
        (*_MACHINE, "models", "accuracy"),
        GRAPH_LIBRARIES,
        after=("onnx", "calibration"),
        untimed=True,
        options=("fallback", "place", "calibration"),
        reads_model=True,
    ),
    Stage(
        "accuracy",
        "how right the integers are on samples that did not calibrate them",
        "accuracy:measure_accuracy",
        _RUNNING,
        GRAPH_LIBRARIES,
        after=("onnx", "graph"),
        untimed=True,
        reads_model=True,
        options=("calibration",),
    ),
    Stage(
        "schedule",
        "how every region runs: tiles, buffers and order, a file for each; with batch= the sub-graphs",
        "program:make_schedules",
        (*_MACHINE, "models"),
        (*GRAPH_LIBRARIES, "networkx"),
        after=("graph",),
        options=("schedule", "streams", "images", "batch", "search", "effort"),
        edited=True,
    ),
    Stage(
        "bundle",
        "every region as a program, and all of the model in one file",
        "program:make_bundle",
        (*_MACHINE, "codegen", "runtime", "models"),
        GRAPH_LIBRARIES,
        after=("onnx", "graph", "schedule"),
    ),
    Stage(
        "summary",
        "what the model costs on the machine",
        "report:make_summary",
        _REPORT,
        GRAPH_LIBRARIES,
        after=("onnx", "graph", "bundle", "accuracy"),
        notes=True,
        reads_model=True,
    ),
    Stage(
        "infer",
        "what running the model's images gave",
        "evaluate:infer_model",
        _RUNNING,
        GRAPH_LIBRARIES,
        after=("onnx", "graph", "bundle"),
        reads_model=True,
        options=("calibration",),
    ),
    Stage(
        "verify",
        "the ladder from floating point to the reference engine, tensor by tensor",
        "evaluate:verify_built",
        _RUNNING,
        GRAPH_LIBRARIES,
        after=("onnx", "graph", "bundle"),
        reads_model=True,
        options=("calibration",),
    ),
    Stage(
        "report",
        "cost, accuracy and exactness, operation by operation",
        "report:make_report",
        _REPORT,
        GRAPH_LIBRARIES,
        after=("onnx", "graph", "bundle", "accuracy", "infer", "verify"),
        notes=True,
        reads_model=True,
        options=("html",),
    ),
    Stage(
        "explain",
        "where the time goes, why nodes are on the host, and what to change",
        "report:explain_model",
        _REPORT,
        GRAPH_LIBRARIES,
        after=("graph",),
        notes=True,
    ),
)

JOIN = Stage(
    "lengths",
    "all lengths of a model in one file",
    "lengths:join_lengths",
    (*_RUNNING,),
    GRAPH_LIBRARIES,
    reads_model=True,
    options=("lengths", "beyond", "calibration"),
)
"""After the stages of every length, once."""
