"""The sources without torch compile for arm64, and the fold has the same bits there.

Needs Debian's g++-aarch64-linux-gnu, and qemu-user to run what it makes. Headers of libraries are
those of this machine: they are the same for all processors.
"""
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["GRADWIRE_BIN_DIR"]).parent
COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
ROOT = "/usr/aarch64-linux-gnu"  # libraries for EMULATOR
FOLDERS = ("common/base", "common/compress", "common/fold", "common/sums", "common/wire",
           "worker/backends", "worker/backends/memory")
# Sources for other processors, and those with OpenSSL, whose headers are not the same for all.
LEFT_OUT = ("xxh3_avx2.cc", "xxh3_avx512.cc", "layout.cc", "token.cc")
SECONDS = 600
OPTIONS = ("-std=c++17", "-O2", "-pthread", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off",
           "-DSPDLOG_COMPILED_LIB", "-DSPDLOG_FMT_EXTERNAL", "-DFMT_SHARED",
           '-DGRADWIRE_VERSION="arm64"', f"-I{SOURCE}")


def run(*command):
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=SECONDS, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{command} exited {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout


def headers(compiler):
    """Returns the options for headers: a cross compiler's own C library comes first."""
    rest = ("-idirafter", "/usr/include") if compiler == COMPILER else ()
    return ("-isystem", BUILD / "proto", "-isystem", BUILD / "common", *rest)


class Arm64Test(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if shutil.which(COMPILER) is None:
            raise unittest.SkipTest(f"did not run: no {COMPILER} (Debian's g++-aarch64-linux-gnu)")
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="gradwire-arm64-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)

    def compile(self, source):
        compiled = self.folder / (str(source.relative_to(SOURCE)).replace("/", "_") + ".o")
        run(COMPILER, *OPTIONS, *headers(COMPILER), "-c", source, "-o", compiled)
        return compiled

    def test_sources_without_torch_compile(self):
        sources = [source for folder in FOLDERS for source in sorted((SOURCE / folder).glob("*.cc"))
                   if source.name not in LEFT_OUT]
        self.assertGreater(len(sources), 30)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            self.assertEqual(len(list(pool.map(self.compile, sources))), len(sources))

    def test_what_is_published_is_stored_with_release_and_read_with_acquire(self):
        compiled = self.compile(SOURCE / "worker/backends/memory/memory_layout.cc")
        code = run("aarch64-linux-gnu-objdump", "-d", compiled)
        self.assertRegex(code, r"\tstlr\t")
        self.assertRegex(code, r"\tldapr\t|\tldar\t")

    def test_fold_has_the_bits_of_this_machine(self):
        if shutil.which(EMULATOR) is None:
            self.skipTest(f"did not run: no {EMULATOR} (Debian's qemu-user)")
        sources = [SOURCE / "tests/long/arm64/fold_bits.cc", SOURCE / "common/fold/kernels.cc"]
        for compiler in (COMPILER, "g++"):
            run(compiler, *OPTIONS, *headers(compiler), *sources, "-o", self.folder / compiler)
        here = run(self.folder / "g++")
        self.assertEqual(len(here.splitlines()), 17)
        self.assertEqual(run(EMULATOR, "-L", ROOT, self.folder / COMPILER), here)


if __name__ == "__main__":
    unittest.main()
