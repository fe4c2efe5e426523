"""The library as others get it: installed, found by CMake and pkg-config, and run."""
import gzip
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/support"))
from page_blocks import blocks, changed  # noqa: E402

BUILD = pathlib.Path(os.environ["GRADWIRE_BUILD_DIR"])
IMAGES = pathlib.Path("/usr/share/datasets/fashion-mnist")


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=300, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} exited {done.returncode}:\n{done.stdout}")
    return done.stdout


def unused_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run_ranks(count, *command, **options):
    """Outputs of `count` equal processes, started as torchrun and mpirun do it."""
    port = unused_port()
    ranks = []
    for rank in range(count):
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(count),
                           LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(count),
                           MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1",
                           GRADWIRE_COORDINATOR_METRICS="off")
        ranks.append(subprocess.Popen([str(word) for word in command], env=environment, text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options))
    outputs = []
    try:
        for rank in ranks:
            out, err = rank.communicate(timeout=240)
            if rank.returncode != 0:
                raise AssertionError(f"{command} exited {rank.returncode}:\n{out}{err}")
            outputs.append(out)
    finally:
        for rank in ranks:
            rank.kill()
    return outputs


class InstalledTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="gradwire-installed-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.prefix = cls.folder / "prefix"
        cls.examples = cls.folder / "examples"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        run("cmake", "-S", SOURCE / "examples", "-B", cls.examples, "-G", "Ninja",
            f"-DCMAKE_PREFIX_PATH={cls.prefix}", "-DCMAKE_BUILD_TYPE=None")  # compiles faster
        run("cmake", "--build", cls.examples)
        cls.library = next(cls.prefix.glob("lib*/**/libgradwire.so"))

    def test_mnist_two_ranks_learns(self):
        data = self.folder / "data"
        data.mkdir()
        for packed in IMAGES.glob("*.gz"):
            (data / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
        first, second = run_ranks(2, self.examples / "mnist", data)
        loss = float(re.fullmatch(r"epoch 0: loss ([0-9.]+)\n", first).group(1))
        self.assertLess(loss, 0.8)  # 2.3 at the start
        self.assertEqual(second, "")

    def test_mnist_without_its_folder_says_so(self):
        ended = subprocess.run([self.examples / "mnist", self.folder / "none"], text=True,
                               capture_output=True, timeout=60,
                               env=dict(os.environ, GRADWIRE_COORDINATOR_METRICS="off"))
        self.assertEqual(ended.returncode, 1, ended.stderr)
        self.assertRegex(ended.stderr, r"(?m)^mnist: .*none")

    def test_gan_three_ranks_runs(self):
        outputs = run_ranks(3, self.examples / "gan", 20)
        self.assertRegex(outputs[0], r"^mean radius [0-9.]+\n$")

    def test_alone_no_launcher_runs(self):
        out = run(self.examples / "gan", 2, env=dict(os.environ,
                                                     GRADWIRE_COORDINATOR_METRICS="off"))
        self.assertIn("mean radius", out)

    def test_worker_hosts_coordinator_no_other_program(self):
        run_ranks(2, self.prefix / "bin" / "gradwire-worker", "--host-coordinator", "--dataset",
                  "synthetic", "--model", "vgg11", "--iterations", 2, "--batch-size", 2)

    def test_launch_program_installed_gradwire_starts_it(self):
        out = run(self.prefix / "bin" / "gradwire", "launch", "--workers", 2, "--listen",
                  "127.0.0.1:0", "--metrics", "off", "--program", self.examples / "gan", "--", 2)
        self.assertIn("mean radius", out)

    def test_page_own_program_builds_learns_and_continues(self):
        train = self.folder / "train"
        train.mkdir()
        page = blocks((SOURCE / "docs/tasks/own-program.md").read_text())
        texts = {language: text for language, text in page if language in ("cpp", "cmake")}
        for language, text in page:
            if language == "diff":
                texts["cpp"] = changed(texts["cpp"], text)
        (train / "train.cc").write_text(texts["cpp"])
        (train / "CMakeLists.txt").write_text(texts["cmake"])
        run("cmake", "-S", train, "-B", train / "build", "-G", "Ninja",
            f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", train / "build")

        def losses(run_dir, epochs):
            out = run(self.prefix / "bin" / "gradwire", "launch", "--workers", 2, "--metrics", "off",
                      "--listen", "127.0.0.1:0", "--run-dir", train / run_dir, "--checkpoint-every",
                      7, "--program", train / "build/train", "--", epochs)
            return re.findall(r"epoch ([0-9]+): loss ([0-9.]+)", out)

        undisturbed = losses("undisturbed", 4)
        self.assertEqual([epoch for epoch, _ in undisturbed], list("0123"))
        self.assertLess(float(undisturbed[3][1]), float(undisturbed[0][1]) / 2)
        self.assertEqual(losses("continued", 2), undisturbed[:2])
        self.assertEqual(losses("continued", 4), undisturbed[2:])

    def test_symbols_only_public_ones(self):
        lines = run("nm", "-DC", "--defined-only", self.library).splitlines()
        names = [line.split(" ", 2)[2] for line in lines]
        self.assertTrue(any("gradwire::init_process_group" in name for name in names))
        public = re.compile(r"(vtable for |typeinfo (name )?for |)gradwire::(version\(|ToString\("
                            r"gradwire::ErrorCode|Error\b|init_process_group|ProcessGroup::|"
                            r"DistributedDataParallel\b|DistributedSampler\b)")
        inside = re.compile(r"::(Impl|State)::")
        self.assertEqual([name for name in names
                          if not public.match(name) or inside.search(name)], [])

    def test_headers_no_private_library(self):
        for header in (self.prefix / "include" / "gradwire").glob("*.h"):
            includes = re.findall(r"#include <([^>]+)>", header.read_text())
            strange = [name for name in includes
                       if "/" in name and not name.startswith(("gradwire/", "torch/"))]
            self.assertEqual(strange, [], header.name)

    def test_pkg_config_knows_the_version(self):
        path = next(self.prefix.glob("lib*/**/gradwire.pc")).parent
        version = run("pkg-config", "--modversion", "gradwire",
                      env=dict(os.environ, PKG_CONFIG_PATH=str(path))).strip()
        self.assertEqual(self.library.resolve().name, f"libgradwire.so.{version}")


if __name__ == "__main__":
    unittest.main()
