#!/usr/bin/env python3
"""Writes to OUT, for ctest, a test FOLDER.SUITE for each suite of a GoogleTest program, except those
whose names begin with Long.

    tests/add_suites.py PROGRAM FOLDER OUT

A start for each case (gtest_discover_tests) takes minutes in all, above all of programs that load
libtorch."""

import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "deploy"))
import arguments  # noqa: E402


def main():
    parser = arguments.Parser(__doc__)
    for name in ("program", "folder", "out"):
        parser.add_argument(name, metavar=name.upper())
    options = parser.parse_args()
    program, folder, out = options.program, options.folder, options.out
    listed = subprocess.run([program, "--gtest_list_tests"], check=True, capture_output=True, text=True)
    # "Suite.", perhaps with "  # TypeParam = ...", and under it the cases, indented.
    suites = re.findall(r"^(?!Long)(\S+)\.(?:  #.*)?$", listed.stdout, re.MULTILINE)
    lines = []
    for suite in suites:
        name = f"[=[{folder}.{suite}]=]"
        lines.append(f"add_test({name} {program} [=[--gtest_filter={suite}.*]=])")
        lines.append(f"set_tests_properties({name} PROPERTIES TIMEOUT 600 LABELS {folder})")
    pathlib.Path(out).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
