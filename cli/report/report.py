#!/usr/bin/python3
"""`gradwire report`, once its options are read.

    report.py DATA OUT RUN... LOG...

DATA: {"phases": as /status.json lists them,
       "runs": how many of the operands are RUN, "NAME=FILE,FILE...",
       "runs_from": the option that names them: "--run"}
OUT is the page; the names of the other files begin with OUT's without its ending:
    .runs.csv, .steps.csv                a line for each run, and for each step of each run
    .FIGURE.png, .FIGURE.svg, .FIGURE.pdf
"""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from cli.launch.bottleneck import bottleneck
from cli.report.document import drawing_module
from cli.report.grouping import group_runs, make_run, notes_of
from cli.report.logs import read_log
from cli.runs.failure import EXIT_USAGE, Failure, within
from cli.runs.output_file import check_writable, replace_file
from cli.terminal.command import WrongUsage, run, say

PROGRAM = "gradwire report"


def parse_named(texts, option):
    """Returns {name: files} of texts "NAME=FILE,FILE"."""
    named = {}
    for text in texts:
        name, _, files = text.partition("=")
        name = name.strip()
        files = [file for file in files.split(",") if file]
        if not name or not files:
            raise WrongUsage(f"{option}: got '{text}', expected NAME=FILE[,FILE...]")
        if name in named:
            raise WrongUsage(f"{option}: there are two runs '{name}'")
        named[name] = files
    return named


def check_files(files, out):
    if not files:
        raise WrongUsage("no log is named; a worker writes one with --log-jsonl")
    stem = os.path.splitext(out)[0]
    outputs = [out, f"{stem}.runs.csv", f"{stem}.steps.csv"]
    for index, file in enumerate(files):
        if file in outputs:
            raise WrongUsage(f"--out: '{file}' is one of the logs, and would be overwritten")
        if file in files[:index]:
            raise WrongUsage(f"'{file}' is named twice")
    for output in outputs:
        with within("--out", EXIT_USAGE):
            check_writable(output)


def read_runs(named, logs, phases):
    """Returns the runs; those named with --run come first."""
    runs = [make_run(name, [read_log(file, phases) for file in files])
            for name, files in named.items()]
    names = {logged.name for logged in runs}
    grouped = group_runs([read_log(file, phases) for file in logs])
    for logged in grouped:
        if logged.name in names:
            raise Failure(f"--run: the logs without --run are of a run '{logged.name}' too; "
                          "choose another name", EXIT_USAGE)
    return runs + grouped


def main(data, operands):
    out, *operands = operands
    named = parse_named(operands[:data["runs"]], data["runs_from"])
    logs = operands[data["runs"]:]
    check_files(sum(named.values(), start=logs), out)
    logged = read_runs(named, logs, data["phases"])
    notes = notes_of(logged)
    for note in notes:
        say(PROGRAM, f"warning: {note}")
    page = drawing_module("cli.report.page")
    runs = [page.Run(of_run, data["phases"]) for of_run in logged]
    sentences = [bottleneck(measured.summaries()) for measured in runs]
    for name, content in page.files_of(runs, sentences, notes, out).items():
        replace_file(name, content)
    return 0


if __name__ == "__main__":
    sys.exit(run(PROGRAM, main))
