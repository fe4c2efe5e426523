#!/usr/bin/python3
"""`gradwire trace`, once its options are read: does for processes that were started by hand what
`gradwire launch --trace` does at its end.

    trace.py {} OUT FILE...     OUT: "" if it was not given
"""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from cli.runs.failure import Failure
from cli.runs.output_file import check_writable, replace_file
from cli.terminal.command import WrongUsage, run
from cli.trace.merge import merge


def check(out, files):
    if not files:
        raise WrongUsage("no FILE is named; workers write one with --trace")
    if not out:
        raise WrongUsage("--out FILE is missing")
    if os.path.realpath(out) in map(os.path.realpath, files):
        raise WrongUsage(f"--out: '{out}' is one of the files, and would be overwritten")
    try:
        check_writable(out)
    except Failure as failure:
        raise WrongUsage(f"--out: {failure}") from None


def main(_, operands):
    out, *files = operands
    check(out, files)
    replace_file(out, merge(files))
    return 0


if __name__ == "__main__":
    sys.exit(run("gradwire trace", main))
