"""Every script of deploy/, tests/ and bench/: --help prints its help and nothing else is done; so
with arguments that are wrong."""
import os
import pathlib
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 60  # far more than it takes; a script that builds takes longer
# Any of them would do something.
FORBIDDEN = ("apt-get", "cmake", "cpack", "ctest", "curl", "docker", "mmdebstrap", "ninja", "openssl",
             "prometheus", "ssh", "sudo", "tar")
SHIM = '#!/bin/sh\necho "$0 $*" >> "$CALLED"\nexit 99\n'


def scripts():
    """All that may be executed, relative to the sources."""
    return sorted(str(file.relative_to(SOURCE)) for folder in ("deploy", "tests", "bench")
                  for file in (SOURCE / folder).rglob("*") if file.is_file() and os.access(file, os.X_OK))


def expected_usage(script):
    """The first line of it, as the script's head has it."""
    lines = (line.removeprefix("#").removeprefix(" ") if line.startswith("#") else line
             for line in (SOURCE / script).read_text().splitlines()[1:])
    return next(line for line in lines if line.startswith("  ")).strip()


class HelpTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.called = self.folder / "called"
        shims = self.folder / "bin"
        shims.mkdir()
        for name in FORBIDDEN:
            (shims / name).write_text(SHIM)
            (shims / name).chmod(0o700)
        self.environment = {"PATH": f"{shims}:/usr/bin:/bin", "HOME": str(self.folder),
                            "CALLED": str(self.called), "LC_ALL": "C.UTF-8",
                            "PYTHONDONTWRITEBYTECODE": "1"}

    def run_script(self, script, *words):
        """In an empty folder, in which nothing may be left."""
        place = self.folder / "place"
        place.mkdir(exist_ok=True)
        done = subprocess.run([SOURCE / script, *words], cwd=place, env=self.environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=SECONDS, check=False)
        self.assertFalse(self.called.exists(), self.called.exists() and self.called.read_text())
        self.assertEqual(os.listdir(place), [])
        return done

    def test_all_scripts_are_found(self):
        found = scripts()
        self.assertLessEqual({"deploy/quickstart", "deploy/fetch-cifar100", "tests/run",
                              "tests/support/debian-chroot", "bench/blas.py"}, set(found))

    def test_help_is_printed_and_nothing_done(self):
        for script in scripts():
            for word in ("--help", "-h"):
                with self.subTest(f"{script} {word}"):
                    done = self.run_script(script, word)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    self.assertIn(expected_usage(script), done.stdout)

    def test_wrong_option_is_named_with_the_usage_and_nothing_done(self):
        for script in scripts():
            with self.subTest(script):
                done = self.run_script(script, "--no-such-option")
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                name = pathlib.Path(script).name
                self.assertRegex(done.stderr, rf"^{name}: .*--no-such-option.*\nUsage:\n")
                self.assertIn(expected_usage(script), done.stderr)

    def test_wrong_option_behind_right_words_is_refused_too(self):
        for words in (["tests/run", "-R", "common", "--parralel", "4"], ["deploy/release", "out", "-x"],
                      ["tests/sanitize", "address", "--colour"], ["deploy/provision", "-x", "hosts"],
                      ["deploy/make-certificates", "host", "--day", "3"],
                      ["deploy/install-packages", "build", "--quiet"]):
            with self.subTest(words):
                done = self.run_script(*words)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn("Usage:\n", done.stderr)

    def test_misspelt_words_of_python_scripts_get_the_nearest(self):
        for words, nearest in ((["deploy/fetch-mnist", "--miror", "x"], "--mirror"),
                               (["bench/blas.py", "--round=3", "a=b"], "--rounds"),
                               (["bench/recovery.py", "--by", "kil"], "kill"),
                               (["tests/mutate", "--onyl", "x"], "--only"),
                               (["tests/strangers/attack.py", "--worker", "2"], "--workers")):
            with self.subTest(words):
                done = self.run_script(*words)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(f"; did you mean {nearest}?\nUsage:\n", done.stderr)

    def test_words_of_python_scripts_behind_the_dashes_are_no_options(self):
        done = self.run_script("bench/blas.py", "--round=3", "--", "--what")
        self.assertIn("unknown option --round;", done.stderr)
        done = self.run_script("bench/blas.py", "--", "--what")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, "^blas.py: got '--what', expected NAME=DIR\nUsage:\n")

    def test_library_that_is_not_there_is_refused_before_anything_is_measured(self):
        done = self.run_script("bench/blas.py", f"a={self.folder}")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn(f"got 'a={self.folder}', expected a folder that holds libblas.so.3\n", done.stderr)

    def test_help_of_a_command_in_the_chroot_is_the_commands(self):
        done = self.run_script("tests/support/debian-chroot", "enter", "--help")
        self.assertEqual(done.returncode, 2)
        self.assertIn("expected make with SUITE and DIR", done.stderr)


if __name__ == "__main__":
    unittest.main()
