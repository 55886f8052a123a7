"""Names of tasks and variables, and the values of each; the command line prints them before anything is read."""

from collections.abc import Mapping
from types import MappingProxyType

TASKS: Mapping[str, str] = MappingProxyType(
    {
        "build": "compile models for a machine, and say what they cost there",
        "infer": "run a model's images: accuracy in floating point, as integers, on the emulator; cycles",
        "verify": "compare every tensor with the integer model, and the emulator's engines with each other",
        "report": "cost, accuracy and exactness of a model, operation by operation",
        "explain": "say where a model's time goes, why nodes are on the host, and what to change",
    }
)

VARIABLES: Mapping[str, str] = MappingProxyType(
    {
        "target": "the machine: NAME, NAME:CONFIG or the path of its file; several with commas, the first choice first; or a deployment's file",
        "model": "names, or paths of .onnx and .yaml files, with commas between them; left out: what the machine's file lists",
        "params": "parameters of the machine, NAME:VALUE with commas between them, in place of its file's; of several machines MACHINE.NAME:VALUE",
        "dim": "sizes of dimensions that an ONNX file leaves open, NAME:SIZE with commas between them; one without a name is INPUT.AXIS",
        "fallback": "yes, or no: an operator that would stay on the host is an error",
        "place": "pays: regions that save time; all: whatever the machine takes; least: the division of least time; left out: the model file's",
        "calibration": "an .npz file of recorded inputs, an array of the input's name for each; left out: what the model's file says",
        "schedule": "the file of a region's schedule, or a folder of such files, to be obeyed; left out: what the search finds",
        "streams": "how many of the machine's programs share the work of every operation; left out: 1",
        "images": "how many images a run takes, each on `streams` of its own; left out: as few as the machine can",
        "html": "yes: `report` writes a page for a browser as well; no",
    }
)
CHOICES: Mapping[str, tuple[str, ...]] = MappingProxyType({"fallback": ("yes", "no"), "place": ("pays", "all", "least"), "html": ("yes", "no")})
"""The values of variables that have few."""


def variables_text() -> str:
    """A line for each variable."""
    width = max(map(len, VARIABLES)) + 2
    return "\n".join(f"  {name + '=':<{width}}{text}" for name, text in VARIABLES.items())
