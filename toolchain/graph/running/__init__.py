"""Running a graph in ONNX Runtime."""
