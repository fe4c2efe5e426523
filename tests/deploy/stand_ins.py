"""A script of deploy/ or tests/, with stand-ins for the programs that it starts."""
import pathlib
import subprocess
import tempfile
import unittest

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"


class Scripts(unittest.TestCase):
    """`folder` has bin/, which is first in PATH, and `log`, where stand-ins say what they did."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.log = self.folder / "log"
        self.log.touch()
        self.environment = {"PATH": f"{self.folder}/bin:/usr/bin:/bin", "HOME": str(self.folder),
                            "LOG": str(self.log), "LC_ALL": "C.UTF-8"}

    def script(self, path, text):
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o700)
        return file

    def run_script(self, script, *words, **environment):
        done = subprocess.run([script, *map(str, words)], cwd=self.folder, timeout=60,
                              env={**self.environment, **environment}, check=False, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        return done.returncode, done.stdout
