"""The operations that kernels compute."""
