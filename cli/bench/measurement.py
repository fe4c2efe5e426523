"""The common part of both measurements of `gradwire bench`."""
from cli.runs.failure import Failure
from cli.runs.machine import describe_environment
from cli.runs.report import Report, write_report
from cli.runs.runner import Runner, torch_version
from cli.terminal.command import drive


def measure_and_report(request, check, measure):
    """Makes the hosts, calls measure(request, runner, report), and writes the report even if that
    failed. `request`: see cli/bench/bench_request.h; `check`: see Jobs. Failure of Runner, then of
    `measure`, then of write_report."""
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


def measured_by(measure):
    """Runs a script of `gradwire bench`. Returns the exit code."""
    return drive("gradwire bench",
                 lambda request, check: measure_and_report(request, check, measure))
