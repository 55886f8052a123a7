"""Bundles and their execution: the host in ONNX Runtime, regions on a device."""
