"""Bundles and what runs them: the host in ONNX Runtime, regions on a device."""
