"""What both measurements of `gradwire bench` do alike."""
import pathlib

from cli.runs.failure import Failure
from cli.runs.machine import describe_machine
from cli.runs.report import Report, write_report
from cli.runs.runner import MASTER, PYTHON, Run, Runner, torch_version


def describe_environment(request, torch):
    """What figures depend on. `torch`: version of the peers' PyTorch, or None."""
    gbit = request["link_gbit"]
    return {**describe_machine(request["versions"]),
            **({"pytorch": torch} if torch else {}),
            "hosts": "a host for each process" if request["hosts"] else
                     "all processes on this machine",
            "link": "unshaped" if gbit is None else f"{gbit:g} Gbit/s"}


def peer_run(request, script, args):
    """Ranks of a script of bench/peers/, which get `args`. Failure if it is not there."""
    path = pathlib.Path(request["programs"]["peers"], script)
    if not path.exists():
        raise Failure(f"no '{path}'; it is built and installed together with gradwire")
    return Run([[PYTHON, str(path), "--rank", str(rank), "--world-size", str(request["workers"]),
                 "--master", MASTER, *args] for rank in range(request["workers"])],
               coordinator=False)


def measure_and_report(request, check, measure):
    """Makes the hosts, calls measure(request, runner, report), and writes the report of what was
    measured even if that failed. `request`: see cli/bench/bench_request.h; `check` as that of
    Jobs. Failure of Runner, then of `measure`, then of write_report."""
    with Runner(request, check) as runner:
        torch = torch_version(runner) if request["peers"] else None
        report = Report("", request["command"], describe_environment(request, torch))
        failure = None
        try:
            measure(request, runner, report)
        except Failure as why:
            failure = why
        try:
            if report.parts and report.parts[0].rows:
                write_report(report, request["files"])
        except Failure as why:
            failure = failure or why
        if failure:
            raise failure
