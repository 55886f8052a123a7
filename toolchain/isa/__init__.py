"""Programs with the origins of their instructions, encoding, assembler, disassembler, the semantics language and footprints."""
