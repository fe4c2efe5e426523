"""Excerpts of examples in the documentation are lines of the example, in its order."""
import pathlib
import re
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]


def excerpt(page, heading):
    """The C++ block of a section."""
    section = (SOURCE / page).read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.search(r"```cpp\n(.*?)```", section, re.S).group(1).splitlines()


class ExcerptsTest(unittest.TestCase):
    def test_checkpoints_of_the_library(self):
        lines = excerpt("docs/library.md", "Checkpoints")
        self.assertTrue(any("resume()" in line for line in lines))
        code = iter((SOURCE / "examples/mnist.cc").read_text().splitlines())
        for line in lines:
            with self.subTest(line=line):
                self.assertIn(line, code)  # goes on after the line before


if __name__ == "__main__":
    unittest.main()
