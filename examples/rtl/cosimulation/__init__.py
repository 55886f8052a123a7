"""The machine's Verilog as a program, and its runs beside the emulator and the cycle model."""
