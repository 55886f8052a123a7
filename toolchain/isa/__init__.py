"""Encoding, assembler, disassembler, the semantics language and footprints."""
