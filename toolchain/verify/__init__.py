"""The verification ladder: float network, integer network in ONNX Runtime, fast engine, reference engine; the first difference is named."""
