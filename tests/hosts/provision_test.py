"""deploy/provision, over real ssh, on hosts of namespaces."""
import pathlib
import unittest

from reachable_hosts import BIN, ReachableHosts

PROVISION = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "provision"
BUILD = BIN.parent


class ProvisionTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = cls.enterClassContext(ReachableHosts(2))

    def provision(self, *words, lines=()):
        command = [*self.hosts.environment(), PROVISION, *words, self.hosts.hostfile(*lines)]
        done = self.hosts.run(0, command, check=False, timeout=200)
        return done.returncode, done.stdout

    def mount_empty(self, folder):
        self.hosts.run(1, ["mount", "-t", "tmpfs", "tmpfs", folder])
        self.addCleanup(self.hosts.run, 1, ["umount", folder])

    def test_programs_and_data_are_copied_where_they_are_not_shared(self):
        data = self.hosts.folder / "some data"
        data.mkdir()
        (data / "batch.bin").write_bytes(b"x" * 100)
        for folder in (BUILD, data):
            self.mount_empty(folder)
        exit_code, printed = self.provision("--programs", BUILD, "--data", data,
                                            lines=("10.10.1.1 slots=2", "10.10.1.2  # new"))
        self.assertEqual(exit_code, 0, printed)
        for line in ("[10.10.1.1] packages are installed", f"[10.10.1.2] {BUILD} copied",
                     f"[10.10.1.1] {BUILD} is the same folder there: nothing copied",
                     f"[10.10.1.2] {data} copied", "[10.10.1.2] done: gradwire ",
                     "provision: done on 2 hosts"):
            self.assertIn(line, printed)
        exit_code, printed = self.hosts.gradwire(
            "launch", "--hostfile", self.hosts.hostfile("10.10.1.2"), "--", "--model", "lenet",
            "--dataset", "synthetic", "--iterations", "2")
        self.assertEqual(exit_code, 0, printed)

    def test_debian_packages_are_installed(self):
        debs = self.hosts.folder / "debs"
        debs.mkdir()
        (debs / "gradwire_1_amd64.deb").write_text("deb\n")
        for host in range(2):
            self.hosts.mount_file(host, "/usr/bin/apt-get", '#!/bin/sh\necho "apt $*"; cat "$4"\n')
            self.hosts.run(host, ["chmod", "+x", "/usr/bin/apt-get"])
            self.addCleanup(self.hosts.run, host, ["umount", "/usr/bin/apt-get"])
        exit_code, printed = self.provision("--debs", debs)
        self.assertRegex(printed, r"\[10.10.1.2\] apt -y -q install /\S+/gradwire_1_amd64.deb")
        self.assertIn("[10.10.1.2] installed gradwire_1_amd64.deb", printed)
        # For that apt-get installs nothing.
        self.assertIn("[10.10.1.2] FAILED: 'gradwire --version' does not run there", printed)
        self.assertEqual(exit_code, 1, printed)

    def test_dead_host_is_named_and_the_others_are_served(self):
        exit_code, printed = self.provision("--programs", BUILD, lines=("10.10.1.1", "10.10.1.9"))
        self.assertEqual(exit_code, 1, printed)
        self.assertIn("[10.10.1.9] FAILED: ssh 10.10.1.9 true", printed)
        self.assertIn("[10.10.1.1] done: gradwire ", printed)
        self.assertIn("provision: 1 of 2 hosts failed: 10.10.1.9", printed)

    def test_wrong_words_are_refused(self):
        for words, said in ((["--data", "/no/folder"], "--data: got '/no/folder', expected a folder"),
                            (["--frob", "/"], "got --frob, expected"),
                            (["x"], "got 2 files, expected one")):
            exit_code, printed = self.provision(*words)
            self.assertEqual(exit_code, 2, printed)
            self.assertIn(said, printed)


if __name__ == "__main__":
    unittest.main()
