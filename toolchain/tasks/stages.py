"""The stages of a build in order, and what each of them depends on."""

from toolchain.tasks.stage import GRAPH_LIBRARIES, Stage

_GRAPH = ("spec", "schemas", "graph", "passes")
_MACHINE = (*_GRAPH, "isa", "emulator", "timing", "templates", "schedule")
_REPORT = (*_MACHINE, "runtime", "verify", "report", "models", "accuracy")

STAGES = (
    Stage(
        "onnx",
        "the model as an ONNX file",
        "onnx:make_onnx",
        ("spec", "schemas", "isa", "graph", "models"),
        ("numpy", "onnx"),
        of_model=True,
        reads_model=True,
        options=("dims",),
    ),
    Stage(
        "calibration",
        "the calibration table: what the model's samples do in floating point",
        "calibrate:calibrate_model",
        (*_GRAPH, "isa", "models"),
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
        after=("onnx", "calibration"),
        options=("fallback", "place", "calibration"),
        reads_model=True,
    ),
    Stage(
        "bundle",
        "every region as a program, and all of the model in one file",
        "bundle:make_bundle",
        (*_MACHINE, "runtime", "models"),
        GRAPH_LIBRARIES,
        after=("onnx", "graph"),
    ),
    Stage(
        "summary",
        "what the model costs on the machine",
        "report:make_summary",
        _REPORT,
        GRAPH_LIBRARIES,
        after=("onnx", "graph", "bundle"),
        notes=True,
    ),
    Stage(
        "infer",
        "what running the model's images gave",
        "infer:infer_model",
        (*_MACHINE, "runtime", "verify", "models", "accuracy"),
        GRAPH_LIBRARIES,
        after=("onnx", "graph", "bundle"),
        reads_model=True,
        options=("calibration",),
    ),
    Stage(
        "verify",
        "the ladder from floating point to the reference engine, tensor by tensor",
        "verify:verify_built",
        (*_MACHINE, "runtime", "verify", "models", "accuracy"),
        GRAPH_LIBRARIES,
        after=("onnx", "graph", "bundle"),
        reads_model=True,
        options=("calibration",),
    ),
    Stage(
        "report",
        "cost, accuracy and exactness, operation by operation",
        "report:make_report",
        _REPORT,
        GRAPH_LIBRARIES,
        after=("onnx", "graph", "bundle", "infer", "verify"),
        notes=True,
        options=("html",),
    ),
    Stage(
        "explain",
        "where the time goes, why nodes are on the host, and what to change",
        "explain:explain_model",
        _REPORT,
        GRAPH_LIBRARIES,
        after=("graph",),
        notes=True,
    ),
)
