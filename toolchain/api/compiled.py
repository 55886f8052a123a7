"""A compiled model: where its bundle is, what it costs, and what else can be asked of it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolchain.tasks.actions.paths import bundle_file, explain_file, graph_file, infer_file, report_file, summary_file, verdict_file
from toolchain.tasks.answers import infer_answer
from toolchain.tasks.plan import steps_of
from toolchain.tasks.stage import Job, Say, Step
from toolchain.tasks.work import fulfil

if TYPE_CHECKING:
    from toolchain.api.loaded import Loaded


@dataclass(frozen=True)
class Answer:
    """text: for a reader. data: the same figures by name, as in the JSON file that the command of the same name leaves."""

    text: str
    data: Mapping[str, Any]

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, repr=False)
class Compiled:
    """One model on one machine. Whatever is asked for is worked out when it is, once, and kept in the build's folder."""

    job: Job
    steps: Mapping[str, Step]
    say: Say

    def __repr__(self) -> str:
        return f"<{self.job.model} on {self.job.machines}: {self.bundle}>"

    @property
    def bundle(self) -> Path:
        """The file that `toolchain.load` takes."""
        return bundle_file(self.job)

    @property
    def folder(self) -> Path:
        """Everything that was made for this model on this machine."""
        return self.job.folder

    @cached_property
    def calibration(self) -> str:
        """Origin of the tensors' ranges: `recorded` samples, `declared` by a quantised model, or `made-up` samples, whose accuracy means little."""
        from toolchain.graph.calibration.ranges import calibration_kind
        from toolchain.graph.store import read_stage

        fulfil(self.steps["graph"], self.say)
        return calibration_kind(read_stage(graph_file(self.job)))

    @property
    def summary(self) -> str:
        """The costs of the model on the machine, in about ten lines."""
        return self._answer("summary", summary_file).text

    @property
    def figures(self) -> Mapping[str, Any]:
        """The summary's figures by name."""
        return self._answer("summary", summary_file).data

    def explain(self) -> Answer:
        """Explain the time by node, the reasons for host nodes and the remedies; from the graph, before compilation."""
        return self._answer("explain", explain_file)

    def verify(self) -> Answer:
        """Compares every tensor with the integer model, bit for bit. Raises UserError E1204 where one differs."""
        return self._answer("verify", verdict_file)

    def infer(self) -> Answer:
        """Runs the model's test images, or those that calibrate it: accuracy of the file, as integers, and on the emulator."""
        fulfil(self.steps["infer"], self.say)
        return Answer(infer_answer(self.job), json.loads(infer_file(self.job).read_text()))

    def report(self, *, html: bool = False) -> Answer:
        """Cost, accuracy and exactness, operation by operation. html: leaves `report.html` as well, a page for a browser, in the folder `report`."""
        return (self._with_page() if html else self)._answer("report", report_file)

    def load(self) -> "Loaded":
        """The bundle, ready to run."""
        from toolchain.api.loaded import load_bundle

        return load_bundle(self.bundle, [target.path for target in self.job.targets], native=True)

    def _with_page(self) -> "Compiled":
        job = replace(self.job, variables=replace(self.job.variables, html=True))
        return replace(self, job=job, steps=steps_of(job, self.steps["report"].code))

    def _answer(self, stage: str, file: Callable[[Job], Path]) -> Answer:
        fulfil(self.steps[stage], self.say)
        path = file(self.job)
        return Answer(path.read_text().rstrip(), json.loads(path.with_suffix(".json").read_text()))
