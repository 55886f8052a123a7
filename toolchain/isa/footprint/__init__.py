"""Reads and writes of instructions, found without tensor data."""
