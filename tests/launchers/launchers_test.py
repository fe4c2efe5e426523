"""gradwire-worker under launchers that start equal processes: real ones, one command each."""
import importlib.metadata
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ["GRADWIRE_BIN_DIR"])
RANKS = 4
RUN = ["--model", "vgg11", "--dataset", "synthetic", "--sync", "ddp", "--iterations", "3",
       "--batch-size", "2", "--lr", "0.01", "--threads", "1", "--print-every", "0"]


def unused_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class LaunchersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="gradwire-launchers-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        summary = cls.folder / "launch.json"
        cls.run_it([BIN / "gradwire", "launch", "--workers", RANKS, "--listen", "127.0.0.1:0",
                    "--metrics", "off", "--summary", summary, "--", *RUN])
        cls.expected = cls.hashes(json.loads(summary.read_text())["ranks"])

    @staticmethod
    def run_it(command, **variables):
        environment = dict(os.environ, OMP_NUM_THREADS="1", GRADWIRE_COORDINATOR_METRICS="off",
                           **variables)
        done = subprocess.run([str(word) for word in command], env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240)
        if done.returncode != 0:
            raise AssertionError(f"{command} exited {done.returncode}:\n{done.stdout}")
        return done.stdout

    @staticmethod
    def hashes(summaries):
        return sorted((s["rank"], s["parameters_sha256"], s["buffers_sha256"]) for s in summaries)

    def run_workers(self, name, launcher, **variables):
        """What workers under `launcher` computed; rank 0 hosts the coordinator."""
        files = self.folder / (name + ".{rank}.json")
        self.run_it([*launcher, BIN / "gradwire-worker", "--host-coordinator", "--summary", files,
                     *RUN], **variables)
        return self.hashes(json.loads((self.folder / f"{name}.{rank}.json").read_text())
                           for rank in range(RANKS))

    def test_mpirun_one_command_same_hashes(self):
        launcher = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", RANKS]
        variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(unused_port())}
        self.assertEqual(self.run_workers("mpirun", launcher, **variables), self.expected)

    def test_torchrun_one_command_same_hashes(self):
        launcher = ["/usr/bin/torchrun", "--no_python", "--nproc_per_node", RANKS]
        variables = {}
        if importlib.metadata.version("torch").startswith("1."):
            # Under its Python 3.11 Debian's 1.13 cannot say "no redirection"; that of a rank that
            # is not there leaves all others without.
            launcher += ["--redirects", "9:1", "--tee", "9:1", "--master_port", unused_port()]
        else:
            # Debian's 2.6 has no libuv, but wants it for its store, unless that is a file.
            launcher += ["--rdzv_backend", "c10d", "--rdzv_conf", "store_type=file",
                         "--rdzv_endpoint", self.folder / "store", "--local_addr", "127.0.0.1"]
            variables = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        self.assertEqual(self.run_workers("torchrun", launcher, **variables), self.expected)

    def test_launch_program_one_command_same_hashes(self):
        launcher = [BIN / "gradwire", "launch", "--workers", RANKS, "--listen", "127.0.0.1:0",
                    "--metrics", "off", "--program"]
        files = self.folder / "program.{rank}.json"
        self.run_it([*launcher, BIN / "gradwire-worker", "--", "--summary", files, *RUN])
        got = self.hashes(json.loads((self.folder / f"program.{rank}.json").read_text())
                          for rank in range(RANKS))
        self.assertEqual(got, self.expected)


if __name__ == "__main__":
    unittest.main()
