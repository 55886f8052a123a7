"""The interface between compiler and runtime: where tensors stand in DRAM, how layouts store them, and which step an instruction belongs to."""
