"""Every code generator, by the word in a machine's `codegen`."""

from collections.abc import Mapping

from toolchain.codegen import Generator
from toolchain.codegen.binary import BinaryGenerator
from toolchain.codegen.c99 import C99Generator
from toolchain.codegen.graphs import JsonGenerator, ToolGenerator

GENERATORS: Mapping[str, Generator] = {"binary": BinaryGenerator(), "c99": C99Generator(), "json": JsonGenerator(), "tool": ToolGenerator()}
