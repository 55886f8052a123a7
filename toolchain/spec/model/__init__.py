"""The data model of a machine, without YAML."""

from toolchain.spec.model.conventions import Copies, Host, Layout, Outline, Quantity, RegionLimits, Rule, Tolerance, Tool
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
from toolchain.spec.model.machine import Machine, Parameter
from toolchain.spec.model.quantisation import Numerics
from toolchain.spec.model.structure import Counter, Illegal, Interlock, Level, Memory, Nop, Ports, SyncRule, Unit, View, Watch
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
