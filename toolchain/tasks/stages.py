"""The stages of a build in order, and what each of them depends on."""

from toolchain.tasks.stage import GRAPH_LIBRARIES, Stage

_GRAPH = ("spec", "schemas", "graph", "passes")
_MACHINE = (*_GRAPH, "isa", "emulator", "timing", "templates", "schedule")
_STORED = ("params", "topology", "memories", "views", "units", "layouts")
_ARCHITECTURE = (*_STORED, "encoding", "instructions", "functions", "numerics", "sync", "program")

STAGES = (
    Stage("onnx", "onnx:make_onnx", ("spec", "schemas", "models"), ("numpy", "onnx"), of_model=True, options=("dims",)),
    Stage("calibration", "calibrate:calibrate_model", (*_GRAPH, "models"), GRAPH_LIBRARIES, (), ("onnx",), True, ("dims",)),
    Stage(
        "graph",
        "graph:make_graph",
        _GRAPH,
        GRAPH_LIBRARIES,
        ("quantisation", "fusion", "pipeline"),
        ("onnx", "calibration"),
    ),
)
