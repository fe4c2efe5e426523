"""cli/runs/mpirun.py: what mpirun needs, and its command."""
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.runs import mpirun
from cli.runs.mpirun import mpirun_of, needs_mpirun, why_not


class WhyNotTest(unittest.TestCase):
    def setUp(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.module = folder / "libgradwire_mpi.so"
        self.module.touch()
        self.request = {"programs": {"mpi": str(self.module)}, "hosts": "", "hostfile": ""}
        self.which = self.enterContext(mock.patch.object(mpirun.shutil, "which",
                                                         return_value="/bin/mpirun"))

    def test_built_and_installed_on_one_machine(self):
        self.assertEqual(why_not(self.request), "")

    def test_hosts(self):
        for hosts in ({"hosts": "auto"}, {"hostfile": "hosts"}):
            self.assertIn("on this machine alone", why_not({**self.request, **hosts}))

    def test_not_built(self):
        self.module.unlink()
        self.assertRegex(why_not(self.request), f"^no {self.module}; install libopenmpi-dev")

    def test_no_mpirun(self):
        self.which.return_value = None
        self.assertEqual(why_not(self.request), "no mpirun: apt-get install openmpi-bin")


class CommandTest(unittest.TestCase):
    def test_last_backend_counts(self):
        request = {"under_mpirun": ["mpi"]}
        self.assertTrue(needs_mpirun(request, ["--backend", "ring", "--backend", "mpi"]))
        self.assertFalse(needs_mpirun(request, ["--backend", "mpi", "--backend", "ring"]))
        self.assertFalse(needs_mpirun(request, ["--model", "mpi", "--backend"]))

    def test_ranks_keep_their_order_and_root_is_allowed(self):
        with (mock.patch.object(mpirun.shutil, "which", return_value="/bin/mpirun"),
              mock.patch.object(mpirun.os, "geteuid", return_value=0)):
            argv = mpirun_of([["a", "1"], ["b"]], ["--tag-output"])
        self.assertEqual(argv, ["/bin/mpirun", "--quiet", "--allow-run-as-root", "--oversubscribe",
                                "--bind-to", "none", "--tag-output", "-np", "1", "a", "1", ":",
                                "-np", "1", "b"])


if __name__ == "__main__":
    unittest.main()
