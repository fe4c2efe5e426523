"""Adds the examples of docs/extending.md to a copy of the sources, builds it and runs them."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/support"))
from page_blocks import BLOCK, changed  # noqa: E402
from source_copy import Copy  # noqa: E402

FILE = re.compile(r"`([\w/.]+\.\w+)`")
SECTIONS = re.compile(r"^## ", re.MULTILINE)
PROGRAMS = ("gradwire", "gradwire-coordinator", "gradwire-worker", "gradwire-trainer")
SECONDS_TO_RUN = 120


class Recipe:
    """A section of the page: `files` with their texts, `changes` to files, and `commands`."""

    def __init__(self, section):
        self.name, _, text = section.partition("\n")
        self.files, self.changes, self.commands = {}, [], []
        end, file = 0, None
        for block in BLOCK.finditer(text):
            file = (FILE.findall(text[end:block.start()]) or [file])[-1]
            if block[1] == "cpp":
                self.files[file] = block[2]
            elif block[1] == "diff":
                self.changes.append((file, block[2]))
            elif block[1] == "sh":
                self.commands.append(block[2])
            end = block.end()


def recipes():
    sections = SECTIONS.split((SOURCE / "docs/extending.md").read_text())[1:]
    return [recipe for recipe in map(Recipe, sections) if recipe.files or recipe.changes]


class RecipesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.recipes = recipes()
        cls.copy = Copy(SOURCE, SOURCE / "build-recipes", SECONDS_TO_RUN)
        cls.copy.refresh()
        for recipe in cls.recipes:
            for name, text in recipe.files.items():
                assert not cls.copy.has(name), f"{recipe.name}: {name} exists already"
                cls.copy.write(name, text)
            for name, change in recipe.changes:
                cls.copy.write(name, changed(cls.copy.read(name), change))
        cls.copy.make(*PROGRAMS)

    def test_there_is_one_for_each_kind(self):
        self.assertEqual([recipe.name for recipe in self.recipes],
                         ["A model", "A data set", "A data set in files", "A sync",
                          "A sync that changes gradients", "A codec", "A topology", "A back end",
                          "An exchange", "An option", "A figure of each step",
                          "A statement of an experiment"])

    def test_each_command_uses_what_was_added(self):
        path = f"{self.copy.programs}:{os.environ['PATH']}"
        for recipe in self.recipes:
            self.assertTrue(recipe.commands, recipe.name)
            for command in recipe.commands:
                with self.subTest(command=command), tempfile.TemporaryDirectory() as folder:
                    ended = subprocess.run(
                        ["bash", "-euo", "pipefail", "-c", command], cwd=folder,
                        env={**os.environ, "PATH": path}, capture_output=True, text=True,
                        timeout=SECONDS_TO_RUN, check=False)
                    self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)


if __name__ == "__main__":
    unittest.main()
