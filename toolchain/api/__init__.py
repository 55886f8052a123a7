"""The Python interface: `toolchain.compile` and `toolchain.load`, over the same stages that the command line runs."""
