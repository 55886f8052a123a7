"""The `tilewright` command: reads its arguments, runs one command, turns user errors into lines and exit codes.

Exit codes: 0 done; 1 an input has errors, each printed with its place and code; 2 wrong command line; 130 interrupted.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from toolchain import __version__
from toolchain.commands.help import SHELLS, answer_shell, complete_machine, complete_variable
from toolchain.process import INTERRUPTED, stop_if_interrupted, was_interrupted
from toolchain.spec.errors import UserError, nearest
from toolchain.tasks.variables import TASKS, variables_text

WRONG_WORDS = 2
"""The exit code for a wrong command line, as argparse has it."""
USAGE = ("E0002", "E1201", "E1202")
"""Codes of errors about the words of a command line alone: options and variables."""
MACHINE = "name of a machine, NAME:CONFIG, or the path of a machine file"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and answers with the exit code."""
    try:
        return _run(argv)
    except BaseException as error:  # what an interrupt becomes on its way through an import may be anything
        if not (was_interrupted() or isinstance(error, KeyboardInterrupt)):
            raise
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def _run(argv: Sequence[str] | None) -> int:
    try:
        commands = parser()
        answer_shell(commands)
        arguments = commands.parse_args(argv)
        code = _command(arguments.run)(arguments) or 0
        sys.stdout.flush()
        return code
    except UserError as error:
        stop_if_interrupted()
        for diagnostic in error.diagnostics:
            print(diagnostic.render(), file=sys.stderr)
        return WRONG_WORDS if error.only(USAGE) else 1
    except BrokenPipeError:
        _close_output()
        return 1
    except OSError as error:
        stop_if_interrupted()
        _close_output()
        print(f"{error.filename or 'standard output'}: E0005 the system refused: {error.strerror}", file=sys.stderr)
        return 1


def _close_output() -> None:
    """Points our output elsewhere once its reader is gone, so that closing it stays quiet."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _command(where: str) -> Callable[[argparse.Namespace], int | None]:
    """The function `module:name`, imported only now so that every command starts fast."""
    module, _, name = where.partition(":")
    return getattr(import_module(f"toolchain.commands.{module}"), name)


class _Parser(argparse.ArgumentParser):
    """Names the nearest of the words that may stand where a misspelt one does."""

    def _check_value(self, action: argparse.Action, value: object) -> None:
        near = nearest(str(value), map(str, action.choices)) if action.choices is not None and value not in action.choices else ""
        if near:
            raise argparse.ArgumentError(action, f"'{value}' is unknown; {near}")
        super()._check_value(action, value)

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]: its overloads are one
        self, args: Any = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """A command refuses words by itself, so that its own usage stands above the message. Variables may also stand behind an option, where
        argparse takes no further words."""
        found, rest = super().parse_known_args(args, namespace)
        if "variables" in found and not any(word.startswith("-") for word in rest):
            found.variables += rest
            return found, []
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = _Parser(prog="tilewright", description="Tools of a DNN accelerator, made from its YAML description.")
    top.add_argument("--version", action="version", version=f"tilewright {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _target_commands(commands.add_parser("target", help="list, show, check and compare machines; write their manuals"))
    _operation_commands(commands.add_parser("operation", help="list, show and check what can be computed"))
    _kernel_commands(commands.add_parser("kernel", help="check a machine's kernels"))
    _model_commands(commands.add_parser("model", help="check a network's file"))
    _translations(commands.add_parser("asm", help="assemble a program"), commands.add_parser("disasm", help="disassemble a program"))
    check = _inputs(_program(commands.add_parser("check", help="find races, deadlocks and bad addresses without running")))
    check.set_defaults(run="emulate:check")
    _emulate(commands.add_parser("emulate", help="run a program bit-exactly and time it"))
    device = _machine(commands.add_parser("device", help="be a machine's device for another process, by its emulator"))
    device.set_defaults(run="emulate:serve_lines")
    for name, text in TASKS.items():
        _variables(commands, name, text).set_defaults(run="tasks:run")
    cleaning = _variables(commands, "clean", "remove what the tasks made of a model for a machine")
    cleaning.add_argument("-n", "--dry-run", action="store_true", help="only say what would be removed")
    cleaning.set_defaults(run="tasks:clean")
    _variables(commands, "info", "say what each stage of a build depends on, and whether it is up to date").set_defaults(run="tasks:info")
    _studio(commands)
    _fusion(commands.add_parser("fusion", help="list the groups of operations that could share a loop, with their prices"))
    _explore(commands.add_parser("explore", help="measure many points of a machine's parameters, and say which are best"))
    _compare(commands.add_parser("compare", help="say what differs between builds, machines or schedules"))
    _extract(commands.add_parser("extract", help="write the part of an ONNX model between some of its tensors as a model of its own"))
    _export(commands.add_parser("export", help="write a built model in another form"))
    _cosim(commands.add_parser("cosim", help="a built program for a test bench of hardware, and what hardware left beside the emulator"))
    _bundle(commands.add_parser("bundle", help="show, run or disassemble a bundle from anywhere"))
    _profile(commands.add_parser("profile", help="times that a device measured, beside those of the cycle model"))
    _mcp(commands.add_parser("mcp", help="serve commands as tools to a client of the Model Context Protocol, on standard input and output"))
    _schema(commands)
    _help(commands, top)
    return top


def _target_commands(target: argparse.ArgumentParser) -> None:
    actions = target.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="every machine on the search path")
    listing.set_defaults(run="describe:list_machines")
    show = _machine(actions.add_parser("show", help="the machine with every parameter in place"))
    show.add_argument("--json", action="store_true", help="as JSON instead of YAML")
    show.add_argument("--assumptions", action="store_true", help="only what the description assumes")
    show.set_defaults(run="describe:show_target")
    check = _machine(actions.add_parser("check", help="every check of a machine file, its kernels and their templates"))
    check.add_argument("--strict", action="store_true", help="also that each parameter, memory, instruction and field has a description")
    check.set_defaults(run="describe:check_target")
    diff = actions.add_parser("diff", help="what differs between two machines or configurations")
    diff.add_argument("first", metavar="MACHINE", help=MACHINE)
    diff.add_argument("second", metavar="MACHINE", help=MACHINE)
    diff.set_defaults(run="describe:diff_targets")
    manual = _machine(actions.add_parser("manual", help="the instruction set manual"))
    manual.add_argument("-o", "--output", metavar="FILE", help="write to FILE; .html gives a page, anything else Markdown")
    manual.add_argument("--program", metavar="PROGRAM", help="show the first instruction of each kind of this program as an example")
    manual.set_defaults(run="describe:write_manual")


def _operation_commands(operation: argparse.ArgumentParser) -> None:
    actions = operation.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = _with_machine(actions.add_parser("list", help="every operation, and what a machine does with it"))
    listing.set_defaults(run="describe:list_operations")
    show = _with_machine(actions.add_parser("show", help="an operation's description and what follows from it"))
    show.add_argument("operation", metavar="OPERATION")
    show.set_defaults(run="describe:show_operation")
    check = _with_machine(actions.add_parser("check", help="hold ONNX bodies and other ways against the index expression on random shapes"))
    check.add_argument("operation", metavar="OPERATION", nargs="*", help="all of them where none is named")
    check.add_argument("--shapes", metavar="N", type=int, default=20, help="random shapes of each operation (20)")
    check.add_argument("--seed", metavar="N", type=int, default=0, help="of the random numbers (0)")
    check.set_defaults(run="describe:check_operations")


def _kernel_commands(kernel: argparse.ArgumentParser) -> None:
    actions = kernel.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = _machine(actions.add_parser("check", help="run kernels on random shapes in random tiles, against the operation's meaning"))
    check.add_argument("kernel", metavar="KERNEL", nargs="*", help="all of them where none is named")
    check.add_argument("--shapes", metavar="N", type=int, default=6, help="random shapes of each kernel (6)")
    check.add_argument("--seed", metavar="N", type=int, default=0, help="of the random numbers (0)")
    check.add_argument("--gaps", action="store_true", help="list the conditions of each kernel that no shape brought about both ways")
    check.set_defaults(run="describe:check_kernels")


def _model_commands(model: argparse.ArgumentParser) -> None:
    actions = model.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = actions.add_parser("check", help="a model's file, the file that it names, and the shapes of the graph")
    check.add_argument("model", metavar="MODEL", help="name of a model, or the path of an .onnx or .yaml file")
    check.add_argument("--dim", metavar="NAME:SIZE", action="append", default=[], help="size of a dimension that the ONNX file leaves open")
    check.set_defaults(run="describe:check_model")


def _with_machine(command: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Operations that a machine brings count as well."""
    machine: Any = command.add_argument("--machine", metavar="MACHINE", help=MACHINE)
    machine.completer = complete_machine
    command.add_argument("--set", metavar="PARAM=VALUE", action="append", default=[], help="another value of one of its parameters")
    return command


def _translations(asm: argparse.ArgumentParser, disasm: argparse.ArgumentParser) -> None:
    _machine(asm).add_argument("source", metavar="FILE.asm")
    asm.add_argument("-o", "--output", metavar="FILE", help="raw binary, .hex words or .two container; default: beside the source")
    asm.set_defaults(run="convert:assemble")
    _program(disasm).add_argument("-o", "--output", metavar="FILE", help="default: standard output")
    disasm.add_argument("--footprints", action="store_true", help="say after each instruction what it reads and writes")
    disasm.set_defaults(run="convert:disassemble")


def _emulate(emulate: argparse.ArgumentParser) -> None:
    _inputs(_program(emulate))
    form, out = "NAME=FILE[@OFFSET:LENGTH]", "write a memory after the run; alone: as much as was loaded or touched"
    emulate.add_argument("--out", metavar=form, action="append", default=[], help=out)
    emulate.add_argument("--engine", choices=["fast", "reference"], default="fast")
    emulate.add_argument("--trace", metavar="FILE", help="timeline: a page for a browser (.html), or a trace for Perfetto and chrome://tracing")
    emulate.add_argument("--json", metavar="FILE", help="counts, cycles and times")
    emulate.add_argument("--no-check", action="store_true", help="run without looking for hazards first")
    emulate.set_defaults(run="emulate:emulate")


def _variables(commands: Any, name: str, text: str) -> argparse.ArgumentParser:
    """A command that takes the variables of the tasks."""
    form, plain = f"variables, NAME=VALUE:\n{variables_text()}", argparse.RawDescriptionHelpFormatter
    command: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text, epilog=form, formatter_class=plain)
    variables: Any = command.add_argument(
        "variables", metavar="NAME=VALUE", nargs="*", help="all of them are below; two words without a name are target and model"
    )
    variables.completer = complete_variable
    return command


def _studio(commands: Any) -> None:
    text = "write a page that shows a build as a whole: machine, graph, schedule, memory, time"
    studio = _variables(commands, "studio", text)
    studio.usage = "tilewright studio [-h] [-o FILE] [--serve] [--port N] [--beside NAME=VALUE] [--profile FILE.csv] MACHINE MODEL [NAME=VALUE ...]"
    studio.add_argument("-o", "--output", metavar="FILE", help="left out: studio.html in the build's folder")
    beside = "a second build on the same page, with this variable instead, and what differs; may be repeated"
    studio.add_argument("--beside", metavar="NAME=VALUE", action="append", default=[], help=beside)
    studio.add_argument("--profile", metavar="FILE.csv", help="times that a device measured, in lanes beside the modelled ones")
    studio.add_argument("--serve", action="store_true", help="serve the page to this computer, and make it again whenever one of its files changes")
    studio.add_argument("--port", metavar="N", type=int, default=0, help="of --serve; left out: a free one")
    studio.set_defaults(run="studio:studio")


def _fusion(fusion: argparse.ArgumentParser) -> None:
    actions = fusion.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = _variables(actions, "list", "every place of a model where a group template fits, with its price, and the covers of the whole")
    oracles = "what prices a group: estimate, exact, analytic, or the file of a learnt oracle (estimate)"
    listing.add_argument("--oracle", metavar="NAME|FILE.json", default="estimate", help=oracles)
    listing.add_argument("--json", action="store_true", help="as JSON")
    listing.set_defaults(run="fusion:list_groups")
    check = _variables(actions, "check", "every such group as a program of its own, on random integers")
    check.add_argument("--seed", metavar="N", type=int, default=0, help="of the random numbers (0)")
    check.set_defaults(run="fusion:check_groups")
    learning = _variables(actions, "learn", "an oracle that prices groups as quickly as the estimate and closer, from exact prices of some models")
    learning.add_argument(
        "--held-out", metavar="MODEL,...", default="", help="of the models, those that it is tried on in place of learning from them"
    )
    learning.add_argument("-o", "--output", metavar="FILE.json", default="oracle.json", help="of the oracle (oracle.json)")
    learning.set_defaults(run="fusion:learn_oracle")


def _explore(explore: argparse.ArgumentParser) -> None:
    study: Any = explore.add_argument("study", metavar="MACHINE|STUDY.yaml", help="a machine, as for other commands, or the file of a study")
    study.completer = complete_machine
    axis = "values of a parameter, NAME=3..5 or NAME=64,256; or of config, place, streams, images; may be repeated"
    explore.add_argument("--vary", metavar="NAME=VALUES", action="append", default=[], help=axis)
    explore.add_argument("--models", metavar="MODEL,...", help="names or paths; left out: what the machine's file lists")
    explore.add_argument("--objective", metavar="NAME,...", help="ms, total_ms, cycles, bytes, area, energy, power, accuracy (ms)")
    explore.add_argument("--search", choices=["grid", "random", "bayes", "evolution"], help="how points are chosen (grid)")
    explore.add_argument("--budget", metavar="N", type=int, help="the most points that are measured (200)")
    explore.add_argument("--seed", metavar="N", type=int, help="of random choices (0)")
    explore.add_argument("--verify", choices=["all", "sample", "no"], help="of each point every tensor, the outputs of one sample, or nothing (all)")
    explore.add_argument("--no-verify", action="store_true", help="the same as --verify no")
    explore.add_argument("--workers", metavar="N", type=int, default=1, help="processes that measure (1); more need the package distributed")
    explore.add_argument("--scheduler", metavar="ADDRESS", default="", help="of a Dask cluster whose hosts share this folder")
    explore.add_argument("-o", "--output", metavar="FOLDER", help="of the study; left out: build/explore/MACHINE")
    explore.set_defaults(run="explore:explore")


def _compare(compare: argparse.ArgumentParser) -> None:
    form = "a build's folder (build/MACHINE/MODEL), report (.json) or bundle; a machine; or a region's schedule: all of one kind; "
    form += "COMMIT:PATH for a file of git's"
    sides: Any = compare.add_argument("sides", metavar="A", nargs="+", help=form)
    sides.completer = complete_machine
    compare.add_argument("--json", metavar="FILE", help="write the comparison as data")
    compare.add_argument("--html", metavar="FILE", help="write a page for a browser")
    compare.add_argument("--fail-above", metavar="PERCENT", help="exit code 1 where time or accuracy is worse than A's by more than so many per cent")
    compare.set_defaults(run="compare:compare")


def _extract(extract: argparse.ArgumentParser) -> None:
    extract.add_argument("model", metavar="MODEL.onnx")
    first, last = "tensors that it begins with; left out: the model's inputs", "tensors that it ends with; left out: the model's outputs"
    extract.add_argument("--from", dest="inputs", metavar="TENSOR", nargs="+", action="extend", default=[], help=first)
    extract.add_argument("--to", dest="outputs", metavar="TENSOR", nargs="+", action="extend", default=[], help=last)
    extract.add_argument("-o", "--output", metavar="OUT.onnx", required=True, help="weights that lie outside MODEL.onnx go into OUT.onnx.data")
    extract.set_defaults(run="convert:extract")


def _export(export: argparse.ArgumentParser) -> None:
    forms = export.add_subparsers(dest="form", required=True, metavar="FORM")
    program = forms.add_parser("c", help="a bundle whose host only converts as a program in C, without Python")
    program.add_argument("bundle", metavar="MODEL.bundle")
    program.add_argument("-o", "--output", metavar="FOLDER", required=True, help="where program.c and its parts go")
    program.add_argument("--library", action="store_true", help="a library with open, run and close in place of a program")
    program.add_argument("--embed", action="store_true", help="with --library: the bundle as an array in a source file, so that open needs none")
    program.set_defaults(run="convert:export_c")
    whole = forms.add_parser("elf", help="the same with the machine's code and the parameters in one ELF file")
    whole.add_argument("bundle", metavar="MODEL.bundle")
    whole.add_argument("-o", "--output", metavar="FILE.elf", required=True)
    whole.set_defaults(run="convert:export_elf")
    packed = forms.add_parser("bundle", help="a bundle with the descriptions of its machines inside, for computers that have not got them")
    _from_elsewhere(packed)
    packed.add_argument("-o", "--output", metavar="OUT.bundle", required=True)
    packed.set_defaults(run="convert:export_bundle")
    model = forms.add_parser("onnx", help="a bundle as an ONNX model whose regions are EPContext nodes")
    model.add_argument("bundle", metavar="MODEL.bundle")
    model.add_argument("-o", "--output", metavar="FILE.onnx", required=True)
    model.add_argument("--embed", action="store_true", help="with the bundle inside, not beside it")
    model.set_defaults(run="convert:export_onnx")
    plugin = forms.add_parser("provider", help="an execution provider of ONNX Runtime for these nodes, as a plug-in in C")
    plugin.add_argument("bundle", metavar="MODEL.bundle")
    plugin.add_argument("-o", "--output", metavar="FOLDER", required=True, help="where provider.c and its parts go")
    plugin.set_defaults(run="convert:export_provider")


def _bundle(bundle: argparse.ArgumentParser) -> None:
    actions = bundle.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = actions.add_parser("show", help="its model, machines, inputs, outputs, plan and time")
    run = actions.add_parser("run", help="runs the samples of a file")
    text = actions.add_parser("disasm", help="the assembly of a region's program")
    for action in (show, run, text):
        _from_elsewhere(action)
    show.add_argument(
        "--operations",
        action="store_true",
        help="also each operation of its programs, with its cycles and bytes, and each memory",
    )
    show.add_argument("--hashes", action="store_true", help="also the SHA-256 of the manifest and of every other member")
    show.set_defaults(run="bundle:show")
    run.add_argument("input", metavar="INPUTS.npz", help="an array of samples for each input, by its name")
    run.add_argument("-o", "--output", metavar="OUTPUTS.npz", help="where the outputs go, by their names")
    wanted = "the right outputs by their names, or an array 'labels' of the right classes: prints how close the results are"
    run.add_argument("--expected", metavar="EXPECTED.npz", help=wanted)
    run.add_argument("--native", action="store_true", help="compile and run C that the bundle brings; only for one that you trust")
    run.set_defaults(run="bundle:run")
    pick = actions.add_parser("pick", help="one length of a bundle of several, as a bundle of its own")
    pick.add_argument("bundle", metavar="MODEL.bundle")
    pick.add_argument("length", metavar="NAME:SIZE", help="of each dimension, with commas between them")
    pick.add_argument("-o", "--output", metavar="ONE.bundle", required=True)
    pick.set_defaults(run="bundle:pick")
    text.add_argument("--region", metavar="REGION", help="the first one, unless another is named")
    text.add_argument("-o", "--output", metavar="FILE")
    text.set_defaults(run="bundle:disassemble")


def _from_elsewhere(command: argparse.ArgumentParser) -> None:
    command.add_argument("bundle", metavar="MODEL.bundle")
    machine = "its machine, where that is not on the search path; one for each that it has, in its order; 'bundle': as it describes them itself"
    command.add_argument("--machine", metavar="MACHINE", action="append", help=machine)


def _profile(profile: argparse.ArgumentParser) -> None:
    _from_elsewhere(profile)
    profile.add_argument(
        "profile", metavar="PROFILE.csv", help="region, stream and instruction or operation, start, end and counters of what was timed"
    )
    profile.add_argument("--region", metavar="REGION", help="only this one")
    profile.add_argument("--html", metavar="FILE", help="the timeline of one region, with lanes for what was measured")
    profile.add_argument("--json", metavar="FILE", help="the tables, every deviation included")
    profile.set_defaults(run="hardware:profile")


def _cosim(cosim: argparse.ArgumentParser) -> None:
    actions = cosim.add_subparsers(dest="action", required=True, metavar="ACTION")
    write = actions.add_parser("write", help="DRAM before a run, the instructions and DRAM after it, as bytes and as words for $readmemh")
    write.add_argument("bundle", metavar="MODEL.bundle")
    write.add_argument("-o", "--output", metavar="FOLDER", required=True)
    write.add_argument("--word-bytes", metavar="N", type=int, default=8, help="bytes of a word of DRAM, a power of two (8)")
    write.set_defaults(run="hardware:write")
    compare = actions.add_parser("compare", help="the DRAM that hardware left, against the emulator's")
    compare.add_argument("bundle", metavar="MODEL.bundle")
    compare.add_argument("result", metavar="FILE", help="of $writememh, or raw bytes (.bin)")
    compare.add_argument("--region", metavar="NAME", help="left out: the first")
    compare.set_defaults(run="hardware:compare")
    for action in (write, compare):
        action.add_argument(
            "--input", metavar="FILE.npz", help="samples by the names of the model's inputs, of which the first runs; left out: drawn"
        )


def _mcp(mcp: argparse.ArgumentParser) -> None:
    mcp.add_argument("--folder", default=".", help="where machines, models and builds are; no path that a client gives leads out of it (.)")
    mcp.add_argument("--allow-build", action="store_true", help="let clients build, into build/ of that folder; without it nothing there is written")
    mcp.add_argument("--deadline", metavar="SECONDS", type=int, default=600, help="of each command (600)")
    mcp.set_defaults(run="mcp:serve")


def _schema(commands: Any) -> None:
    schema = commands.add_parser("schema", help="print the path of a YAML file's schema, or the settings with which an editor knows all of them")
    schema.add_argument("kind", metavar="KIND", nargs="?", help="target, kernels, model, ...; left out: a line for each")
    schema.add_argument("--settings", action="store_true", help="the key yaml.schemas of an editor's settings, as JSON")
    with_parameters = "the schema itself, for files of the kind explore or target, with the parameters of this machine"
    with_machine: Any = schema.add_argument("--machine", metavar="MACHINE", help=with_parameters)
    with_machine.completer = complete_machine
    schema.set_defaults(run="help:print_schema")


def _help(commands: Any, top: argparse.ArgumentParser) -> None:
    completion = commands.add_parser("completion", help="print what a shell needs to complete commands and names")
    completion.add_argument("shell", choices=SHELLS)
    completion.set_defaults(run="help:print_script")
    helping = commands.add_parser("help", help="say what a command does and takes, or explain the code of an error")
    helping.add_argument("topic", metavar="COMMAND|CODE", nargs="*")
    helping.set_defaults(run="help:print_help", parser=top)


def _machine(command: argparse.ArgumentParser) -> argparse.ArgumentParser:
    machine: Any = command.add_argument("machine", metavar="MACHINE", help=MACHINE)
    machine.completer = complete_machine
    command.add_argument("--set", metavar="PARAM=VALUE", action="append", default=[], help="override a parameter; may be repeated")
    return command


def _program(command: argparse.ArgumentParser) -> argparse.ArgumentParser:
    _machine(command)
    command.add_argument("program", metavar="PROGRAM", help="raw binary, .hex words, .asm text or an object container")
    return command


def _inputs(command: argparse.ArgumentParser) -> argparse.ArgumentParser:
    load = "load a file into a memory; NAME[3] for instance 3"
    command.add_argument("--memory", metavar="NAME=FILE[@OFFSET]", action="append", default=[], help=load)
    command.add_argument("--register", metavar="NAME=VALUE", action="append", default=[], help="set a host register")
    return command


if __name__ == "__main__":
    sys.exit(main())
