"""The stages of a build in order, and what each of them depends on."""

from toolchain.tasks.stage import GRAPH_LIBRARIES, Stage

_GRAPH = ("spec", "schemas", "graph", "passes")
_MACHINE = (*_GRAPH, "isa", "emulator", "timing", "templates", "schedule")
_REPORT = (*_MACHINE, "runtime", "verify", "report", "accuracy")
_STORED = ("params", "topology", "memories", "views", "units", "layouts")
_ARCHITECTURE = (*_STORED, "encoding", "instructions", "functions", "numerics", "sync", "program")

STAGES = (
    Stage(
        "onnx",
        "the model as an ONNX file",
        "onnx:make_onnx",
        ("spec", "schemas", "models"),
        ("numpy", "onnx"),
        of_model=True,
        reads_model=True,
        options=("dims",),
    ),
    Stage(
        "calibration",
        "the calibration table: what the model's samples do in floating point",
        "calibrate:calibrate_model",
        (*_GRAPH, "models"),
        GRAPH_LIBRARIES,
        after=("onnx",),
        of_model=True,
        reads_model=True,
        options=("dims", "calibration"),
    ),
    Stage(
        "graph",
        "an ONNX file after every pass, the last in integers and partitioned",
        "graph:make_graph",
        (*_MACHINE, "models"),
        GRAPH_LIBRARIES,
        (*_ARCHITECTURE, "quantisation", "operators", "fusion", "pipeline", "kernels", "host"),
        ("onnx", "calibration"),
        options=("fallback", "place", "calibration"),
        reads_model=True,
    ),
    Stage(
        "schedule",
        "how every region runs: tiles, buffers and order, a file for each",
        "schedule:make_schedules",
        _MACHINE,
        GRAPH_LIBRARIES,
        (*_ARCHITECTURE, "timing", "kernels"),
        ("graph",),
        options=("schedule",),
        edited=True,
    ),
    Stage(
        "bundle",
        "every region as a program, and all of the model in one file",
        "bundle:make_bundle",
        (*_MACHINE, "runtime"),
        GRAPH_LIBRARIES,
        (*_ARCHITECTURE, "timing", "kernels"),
        ("onnx", "graph", "schedule"),
    ),
    Stage(
        "summary",
        "what the model costs on the machine",
        "report:make_summary",
        _REPORT,
        GRAPH_LIBRARIES,
        (*_ARCHITECTURE, "timing", "host", "fusion", "kernels"),
        ("onnx", "graph", "bundle"),
    ),
    Stage(
        "infer",
        "what running the model's images gave",
        "infer:infer_model",
        (*_MACHINE, "runtime", "verify", "models", "accuracy"),
        GRAPH_LIBRARIES,
        (*_ARCHITECTURE, "timing", "host"),
        ("onnx", "graph", "bundle"),
        reads_model=True,
        options=("calibration",),
    ),
    Stage(
        "verify",
        "the ladder from floating point to the reference engine, tensor by tensor",
        "verify:verify_built",
        (*_MACHINE, "runtime", "verify", "models", "accuracy"),
        GRAPH_LIBRARIES,
        (*_ARCHITECTURE, "timing", "kernels"),
        ("onnx", "graph", "bundle"),
        reads_model=True,
        options=("calibration",),
    ),
    Stage(
        "report",
        "cost, accuracy and exactness, operation by operation",
        "report:make_report",
        _REPORT,
        GRAPH_LIBRARIES,
        (*_ARCHITECTURE, "timing", "host", "fusion", "kernels"),
        ("onnx", "graph", "bundle", "infer", "verify"),
        options=("html",),
    ),
    Stage(
        "explain",
        "where the time goes, why nodes are on the host, and what to change",
        "explain:explain_model",
        _REPORT,
        GRAPH_LIBRARIES,
        (*_ARCHITECTURE, "timing", "host", "fusion", "kernels"),
        ("graph",),
    ),
)
