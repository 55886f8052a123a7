"""The version of the toolchain, which every package may name in what it writes."""

__version__ = "0.1.0"
