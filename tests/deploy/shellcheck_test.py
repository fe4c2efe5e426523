"""The shell scripts of all folders: clean for shellcheck."""
import pathlib
import subprocess
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = (".ci", "bench", "deploy", "examples", "tests")
# What they read has no first line of its own, for it is run by none.
READ = "deploy/arguments.sh"
SHELLS = (b"#!/bin/bash\n", b"#!/bin/sh\n", b"#!/usr/bin/env bash\n")


def is_script(file):
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return opened.readline() in SHELLS


class ShellcheckTest(unittest.TestCase):
    def test_shellcheck_clean(self):
        scripts = sorted(str(file.relative_to(SOURCE)) for folder in FOLDERS
                         for file in (SOURCE / folder).rglob("*") if is_script(file))
        self.assertIn("deploy/slurm/gradwire.sbatch", scripts)
        done = subprocess.run(["shellcheck", READ, *scripts], cwd=SOURCE, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual((done.returncode, done.stdout), (0, ""))


if __name__ == "__main__":
    unittest.main()
