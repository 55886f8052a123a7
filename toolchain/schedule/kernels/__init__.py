"""Kernels of machines: how one operation runs on one of them."""
