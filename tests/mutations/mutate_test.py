"""tests/mutate, on a small tree of its own."""
import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import subprocess
import tempfile
import unittest
from unittest import mock

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "mutate"
LOADER = importlib.machinery.SourceFileLoader("mutate", str(SCRIPT))
mutate = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutate", LOADER))
LOADER.exec_module(mutate)

SUM = "def add(a, b):\n    return a + b\n\n\ndef double(a):\n    return 2 * a\n"
TEST = """import unittest
from sums import add

class SumTest(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(1, 2), {expected})
"""


def change(old, new, tests=("sums_test.py",)):
    return mutate.Change("it", "sums.py", old, new, list(tests))


class MadeInTest(unittest.TestCase):
    def test_line_is_replaced_with_its_indent(self):
        self.assertIn("\n    return a - b\n", change("return a + b", "return a - b").made_in(SUM))

    def test_no_new_line_takes_the_old_one_away(self):
        self.assertTrue(change("return 2 * a", "").made_in(SUM).endswith("def double(a):\n"))

    def test_line_that_is_not_there_is_a_problem(self):
        with self.assertRaisesRegex(mutate.Problem, r"^it: got 0 lines 'return 3' in sums\.py"):
            change("return 3", "").made_in(SUM)

    def test_line_that_is_there_twice_is_a_problem(self):
        with self.assertRaisesRegex(mutate.Problem, "^it: got 2 lines 'x'"):
            change("x", "y").made_in("x\n  x\n")


class ShardTest(unittest.TestCase):
    def test_place_and_number_are_read(self):
        self.assertEqual(mutate.shard("2/3"), (2, 3))

    def test_others_are_refused(self):
        for text in ("0/3", "4/3", "3", "a/b"):
            with self.assertRaises(mutate.argparse.ArgumentTypeError):
                mutate.shard(text)


class RunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.source = pathlib.Path(folder.name, "source")
        self.copy = pathlib.Path(folder.name, "copy")
        self.source.mkdir()
        subprocess.run(["git", "init", "-q", str(self.source)], check=True)
        (self.source / "sums.py").write_text(SUM)
        (self.source / "sums_test.py").write_text(TEST.format(expected=3))
        patched = mock.patch.object(mutate, "SOURCE", self.source)
        patched.start()
        self.addCleanup(patched.stop)

    def run_with(self, *changes):
        """Exit code, and what was printed."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            code = mutate.run(list(changes), mutate.Copy(self.source, self.copy, 60))
        return code, printed.getvalue()

    def test_change_that_a_test_notices_is_well(self):
        code, printed = self.run_with(change("return a + b", "return a - b"))
        self.assertEqual(code, 0, printed)
        self.assertIn("it: noticed\n1 of 1 changes are noticed\n", printed)

    def test_change_that_no_test_notices_fails(self):
        code, printed = self.run_with(change("return 2 * a", "return 3 * a"))
        self.assertEqual(code, 1)
        self.assertIn("it: SURVIVES sums_test.py\n0 of 1 changes are noticed; not so: it\n", printed)

    def test_only_the_named_class_counts(self):
        text = TEST.format(expected=3)
        (self.source / "sums_test.py").write_text(
            text + "\nclass NoTest(unittest.TestCase):\n    def test_nothing(self):\n        pass\n")
        code, printed = self.run_with(change("return a + b", "return a - b",
                                             ["sums_test.py SumTest"]))
        self.assertEqual(code, 0, printed)
        code, printed = self.run_with(change("return a + b", "return a - b",
                                             ["sums_test.py NoTest"]))
        self.assertEqual(code, 1)
        self.assertIn("it: SURVIVES sums_test.py NoTest\n", printed)

    def test_tests_that_run_the_programs_get_them(self):
        folder = self.source / "tests/recovery"
        folder.mkdir(parents=True)
        (folder / "a_test.py").write_text(
            "import os, unittest\n\nclass ATest(unittest.TestCase):\n    def test_bin(self):\n"
            "        self.assertTrue(os.environ['GRADWIRE_BIN_DIR'].endswith('build/bin'))\n")
        copy = mutate.Copy(self.source, self.copy, 60)
        copy.refresh()
        with mock.patch.object(copy, "make") as made:
            self.assertTrue(copy.passes("tests/recovery/a_test.py ATest"))
        self.assertIn("gradwire-worker", made.call_args.args)
        self.assertFalse(change("x", "y", ["tests/recovery/a_test.py ATest"]).scripts_only)

    def test_sources_and_copy_are_as_before(self):
        self.run_with(change("return a + b", "return a - b"))
        self.assertEqual((self.source / "sums.py").read_text(), SUM)
        self.assertEqual((self.copy / "tree/sums.py").read_text(), SUM)

    def test_copy_follows_the_sources(self):
        self.run_with()
        (self.source / "sums_test.py").unlink()
        (self.source / "sums.py").write_text("")
        self.run_with()
        files = {str(file.name): file.read_text() for file in (self.copy / "tree").iterdir()}
        self.assertEqual(files, {"sums.py": ""})

    def test_test_that_fails_without_the_change_says_nothing_of_it(self):
        (self.source / "sums_test.py").write_text(TEST.format(expected=4))
        code, printed = self.run_with(change("return a + b", "return a - b"))
        self.assertEqual(code, 1)
        self.assertIn("it: FAILS WITHOUT IT: sums_test.py\n", printed)

    def test_file_without_tests_is_an_error(self):
        (self.source / "sums_test.py").write_text("")
        code, printed = self.run_with(change("return a + b", "return a - b"))
        self.assertEqual(code, 1)
        self.assertIn("it: ERROR: sums_test.py: ran no test\n", printed)

    def test_problem_names_what_is_not_there(self):
        self.assertEqual(change("return a + b", "return a").problem(), "")
        self.assertIn("got no_test.py, which does not exist",
                      change("return a + b", "return a", ["no_test.py"]).problem())
        self.assertIn("got no change", change("return a + b", "return a + b").problem())


if __name__ == "__main__":
    unittest.main()
