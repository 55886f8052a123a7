"""Where tensors stand, on chip and in DRAM."""
