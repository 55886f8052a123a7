"""A machine's instruction encoding as macros for Verilog, so that the place of a field is stated in the machine's file alone."""

from collections.abc import Iterator

from toolchain.spec.model import Field, Instruction, Machine


def header(machine: Machine) -> str:
    """`ANY_FIELD` is a field that all instructions have at one place, `INSTRUCTION_FIELD` one of an instruction, both as MSB:LSB;
    `INSTRUCTION_FIELD_VALUE` is a named value, `IS_INSTRUCTION` the value of the field that identifies it."""
    first, *others = ([_place(field) for field in each.fields] for each in machine.instructions)
    shared = {place for place in first if all(place in each for each in others)}
    lines = [f"// The encoding of {machine.name}, from its description."]
    lines += [_bits("ANY", field) for field in machine.instructions[0].fields if _place(field) in shared]
    for each in machine.instructions:
        lines += _own(each, [field for field in each.fields if _place(field) not in shared])
    return "\n".join(lines) + "\n"


def _own(instruction: Instruction, fields: list[Field]) -> Iterator[str]:
    for name, value in instruction.match.items():
        yield _value(f"IS_{instruction.name}", instruction.field(name), value)
    for field in fields:
        yield _bits(instruction.name, field)
        for name, value in field.names.items():
            yield _value(f"{instruction.name}_{field.name}_{name}", field, value)


def _place(field: Field) -> tuple[str, int, int]:
    return field.name, field.lsb, field.bits


def _bits(prefix: str, field: Field) -> str:
    return f"`define {prefix}_{field.name.upper()} {field.lsb + field.bits - 1}:{field.lsb}"


def _value(name: str, field: Field, value: int) -> str:
    return f"`define {name.upper()} {field.bits}'d{value}"
