"""Installs, uses and removes the Debian packages, in a Debian system made from the archive."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["GRADWIRE_BIN_DIR"]).parent
CHROOT = SOURCE / "tests/support/debian-chroot"
SUITE = "bookworm"  # the Debian release that the packages of this build fit
LAUNCH = ("gradwire launch --workers 2 --summary summary.json -- --model lenet --dataset synthetic "
          "--batch-size 8 --iterations 5 --threads 1")
# Folders that do not count: the packages, records of packages, and output of runs.
APART = ("/debs/", "/tmp/", "/var/cache/apt/", "/var/lib/apt/", "/var/lib/dpkg/", "/var/log/")


def run(*command, seconds=1800, **options):
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=seconds, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} exited {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout


class PackagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
            raise unittest.SkipTest("did not run: a chroot needs root and mmdebstrap")
        if f'VERSION_CODENAME={SUITE}' not in pathlib.Path("/etc/os-release").read_text():
            raise unittest.SkipTest(f"did not run: packages of this build are not for {SUITE}")
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix="gradwire-chroot-"))
        cls.addClassCleanup(run, "rm", "-rf", cls.root)
        run(CHROOT, "make", SUITE, cls.root)
        run(CHROOT, "enter", cls.root, "apt-get", "-q", "update")
        run("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", cls.root / "debs",
            "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip", cwd=BUILD)

    def inside(self, script):
        return run(CHROOT, "enter", self.root, "bash", "-euo", "pipefail", "-c", script)

    def apt(self, words):
        self.inside("export DEBIAN_FRONTEND=noninteractive; "
                    f"apt-get -y -q --no-install-recommends {words}")

    def files(self):
        found = self.inside("find / -xdev ! -type d -printf '%p\\n'").splitlines()
        return {file for file in found if not file.startswith(APART)}

    def test_programs_installed_used_removed_nothing_left(self):
        self.apt("install /debs/gradwire_*.deb")
        installed = self.files()
        self.assertIn("libtorch", self.inside("gradwire --version"))
        self.inside(f"cd /tmp && {LAUNCH} && grep -q parameters_sha256 summary.json")
        self.inside("gradwire models; gradwire-worker --help; gradwire-coordinator --help")
        self.assertEqual(self.files() - installed, set())
        own = set(self.inside("dpkg -L gradwire | xargs -d '\\n' -I @ find @ -prune ! -type d")
                  .splitlines())
        self.assertIn("/usr/bin/gradwire", own)
        self.apt("autoremove --purge gradwire")
        left = self.files()
        self.assertEqual(own & left, set())
        self.assertEqual({file for file in left if "gradwire" in file}, set())

    # Must run after the other test, which checks for leftovers: "the" sorts after "programs".
    def test_the_library_examples_built_with_the_packages_and_run(self):
        shutil.copytree(SOURCE / "examples", self.root / "root/examples")
        self.apt("install /debs/libgradwire0_*.deb /debs/libgradwire-dev_*.deb "
                 "/debs/gradwire_*.deb /debs/gradwire-doc_*.deb g++ cmake ninja-build pkg-config")
        self.inside("cmake -S /root/examples -B /tmp/examples -G Ninja && "
                    "cmake --build /tmp/examples")
        out = self.inside("cd /tmp && gradwire launch --workers 2 --program examples/gan -- 2")
        self.assertIn("mean radius", out)
        self.inside("pkg-config --exists --print-errors gradwire")
        # The documentation package has the same examples.
        self.inside("diff -r /root/examples /usr/share/doc/gradwire-doc/examples "
                    "--exclude=deploy")


if __name__ == "__main__":
    unittest.main()
