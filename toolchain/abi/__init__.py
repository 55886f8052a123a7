"""The interface between compiler and runtime: where tensors stand in DRAM, and how layouts store them."""
