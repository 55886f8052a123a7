"""The data model of a machine, without YAML: the elaborated machine, frozen and concrete, which every tool reads, and the names of its parts."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from toolchain.spec.errors import Span
from toolchain.spec.model.conventions import Copies, Host, Layout, MachineCosts, Outline, Quantity, RegionLimits, Rule, Tolerance, Tool
from toolchain.spec.model.instructions import (
    Constraint,
    Encoding,
    Field,
    Instruction,
    Pipelined,
    ProgramRules,
    Resource,
    Text,
    Timing,
    TimingClass,
    TimingConstant,
    Transfer,
)
from toolchain.spec.model.quantisation import Numerics
from toolchain.spec.model.structure import Counter, Illegal, Interlock, Level, Memory, Nop, Ports, SyncRule, Unit, View, Watch, stream_levels
from toolchain.spec.model.types import ElementType, FloatType, RecordField, ScalarType

__all__ = [
    "Constraint",
    "Copies",
    "Counter",
    "ElementType",
    "Encoding",
    "Field",
    "FloatType",
    "Host",
    "Illegal",
    "Instruction",
    "Interlock",
    "Layout",
    "Level",
    "Machine",
    "Memory",
    "Nop",
    "Numerics",
    "Outline",
    "Parameter",
    "Pipelined",
    "Ports",
    "ProgramRules",
    "Quantity",
    "RecordField",
    "RegionLimits",
    "Resource",
    "Rule",
    "ScalarType",
    "SyncRule",
    "Text",
    "Timing",
    "TimingClass",
    "TimingConstant",
    "Tolerance",
    "Tool",
    "Transfer",
    "Unit",
    "View",
    "Watch",
]


@dataclass(frozen=True)
class Parameter:
    """range: least and largest value, None where choices say which there are."""

    doc: str
    range: tuple[int, int] | None
    choices: tuple[str, ...]
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def values(self) -> str:
        """The values that it may have, for readers."""
        return " or ".join(self.choices) if self.choices else f"{self.range[0]} to {self.range[1]}" if self.range else ""


@dataclass(frozen=True)
class Machine:
    """A machine with every parameter in place."""

    name: str
    config: str
    summary: str
    sources: tuple[str, ...]
    params: Mapping[str, int]
    levels: tuple[Level, ...]
    memories: tuple[Memory, ...]
    views: tuple[View, ...]
    units: tuple[Unit, ...]
    encoding: Encoding
    instructions: tuple[Instruction, ...]
    functions: Text | None
    counters: tuple[Counter, ...]
    sync: tuple[SyncRule, ...]
    illegal: tuple[Illegal, ...]
    rules: tuple[Rule, ...]
    timing: Timing
    layouts: tuple[Layout, ...]
    program: ProgramRules
    portable: tuple[tuple[str, Constraint], ...] = ()
    """(instruction, a condition for agreement with other implementations of the machine); breaking it is a warning"""
    assumptions: tuple[str, ...] = ()
    """sentences, each with the section it is about"""
    host: Host | None = None
    configs: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    """those that a build makes for it where no model is named"""
    nops: tuple[Nop, ...] = ()
    interlock: Interlock | None = None
    settable: tuple[str, ...] = ()
    """the parameters that a user may override; others follow from them"""
    parameters: Mapping[str, Parameter] = field(default_factory=dict[str, Parameter])
    """the same with their descriptions in the file"""
    assumed_params: Mapping[str, str] = field(default_factory=dict[str, str])
    """parameters whose values are assumed, and the reason for each value"""
    quantisation: Numerics | None = None
    operators: Mapping[str, tuple[Constraint, ...]] = field(default_factory=dict[str, tuple[Constraint, ...]])
    """by kind of operation: conditions for the machine to take it, and the reason that a user reads"""
    fusion: Outline | None = None
    pipeline: Outline | None = None
    codegen: str = "binary"
    """the code generator of its regions: `binary`, its own instructions; `c99`, calls of a library of kernels; `json`, a graph of ONNX's operators;
    `tool`, a vendor's compiler"""
    limits: RegionLimits = field(default_factory=RegionLimits)
    """the most that a region may have"""
    tool: Tool | None = None
    """the vendor's compiler, with `codegen: tool`"""
    half: bool = False
    """whether graphs compute in float16"""
    costs: MachineCosts | None = None
    """area, energy and static power, as far as the file states them; no result depends on them"""
    tolerance: Tolerance | None = None
    """of a vendor's code, of a C library in float32, and of float16"""

    path: str = field(default="", compare=False)
    """its file, as messages print it"""
    choices: Mapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """(parameter, choice) -> its number, for `SHR == SHR.full`"""
    without: tuple[str, ...] = ()
    """names of its kernels that a build leaves out"""

    @property
    def takes_graphs(self) -> bool:
        """Whether regions are graphs of ONNX's operators, without integers."""
        return self.codegen in ("json", "tool") or self.calls_operators

    @property
    def calls_operators(self) -> bool:
        """Whether its kernels are functions of a C library that compute operators of ONNX in float32."""
        return self.codegen == "c99" and self.quantisation is None

    @property
    def allowance(self) -> Tolerance | None:
        """How far results may be from ONNX Runtime's; None where they are the same bits."""
        return self.tolerance if self.tool or self.half or self.calls_operators or self.floats else None

    @property
    def floats(self) -> bool:
        """Whether its instructions compute in a floating format, to the bit as its file says."""
        return self.quantisation is not None and self.quantisation.floats is not None

    @property
    def label(self) -> str:
        """The machine as a reader sees it: `name:config`, the name alone where it has one configuration."""
        return f"{self.name}:{self.config}" if self.config else self.name

    @cached_property
    def memory(self) -> dict[str, Memory]:
        return {m.name: m for m in self.memories}

    @cached_property
    def view(self) -> dict[str, View]:
        return {v.name: v for v in self.views}

    @cached_property
    def instruction(self) -> dict[str, Instruction]:
        return {i.name: i for i in self.instructions}

    @cached_property
    def declared_fields(self) -> tuple[Field, ...]:
        """Every field as it stands in the file, once however many instructions share its format."""
        return tuple({f.span: f for i in self.instructions for f in i.fields}.values())

    def latched(self, register: Memory) -> tuple[Field, ...]:
        """The fields that a register holds: those of the first instruction that it latches which all others have too."""
        first, *others = (self.instruction[name] for name in register.latches)
        return tuple(field for field in first.fields if all(any(f.name == field.name for f in other.fields) for other in others))

    @property
    def lockstep(self) -> int:
        """How many images one stream takes at once: instances of all levels in lockstep."""
        return math.prod(level.count for level in self.levels if level.lockstep)

    @cached_property
    def streams(self) -> int:
        """How many programs run side by side: instances of the level marked `streams`, or one."""
        return math.prod(level.count for level in stream_levels(self.levels))

    def instances(self, scope: str) -> int:
        """Instances of a scope on the whole device; the outer level's index varies slowest."""
        count = 1
        if scope == "device":
            return count
        for level in self.levels:
            count *= level.count
            if level.name == scope:
                return count
        raise KeyError(scope)
