"""What can be asked for, by name; the command line prints it before anything is read."""

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
