"""The Debian packages: what is in them, what lintian says, and the pages and completion that are
made of --help. Installed and used they are in tests/long."""
import fnmatch
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["GRADWIRE_BUILD_DIR"])
LIB = f"usr/lib/{os.environ['GRADWIRE_ARCHITECTURE']}"
COMMANDS = ("launch", "bench", "models", "experiment", "plan", "trace", "status", "checkpoint",
            "report", "env")
# Every file is one of these, and each of these is there.
CONTENTS = {
    "gradwire": [
        "usr/bin/gradwire", "usr/bin/gradwire-coordinator", "usr/bin/gradwire-worker",
        "usr/lib/systemd/system/gradwire-coordinator.service",
        "usr/lib/systemd/system/gradwire-worker.service",
        "usr/libexec/gradwire/cli/*.py", "usr/libexec/gradwire/peers/*.py",
        "usr/libexec/gradwire/gradwire-collectives", "usr/libexec/gradwire/gradwire-layout",
        "usr/libexec/gradwire/gradwire-models", "usr/libexec/gradwire/gradwire-trainer",
        "usr/libexec/gradwire/arguments.sh", "usr/libexec/gradwire/make-certificates",
        "usr/libexec/gradwire/libgradwire_gloo.so", "usr/libexec/gradwire/libgradwire_optimizer.so",
        "usr/share/bash-completion/completions/gradwire*",
        "usr/share/zsh/vendor-completions/_gradwire", "usr/share/man/man1/gradwire*.1.gz",
        "usr/share/lintian/overrides/gradwire"],
    "gradwire-mpi": ["usr/libexec/gradwire/libgradwire_mpi.so"],
    "libgradwire0": [f"{LIB}/libgradwire.so.0", f"{LIB}/libgradwire.so.0.*",
                     "usr/share/lintian/overrides/libgradwire0"],
    "libgradwire-dev": ["usr/include/gradwire/*.h", f"{LIB}/libgradwire.so",
                        f"{LIB}/cmake/gradwire/*.cmake", f"{LIB}/pkgconfig/gradwire.pc"],
    "gradwire-doc": ["usr/share/doc/gradwire-doc/README.md", "usr/share/doc/gradwire-doc/CHANGELOG.md",
                     "usr/share/doc/gradwire-doc/docs/*", "usr/share/doc/gradwire-doc/examples/*.cc",
                     "usr/share/doc/gradwire-doc/examples/CMakeLists.txt",
                     "usr/share/doc/gradwire-doc/examples/deploy/*"],
}


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=900, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} exited {done.returncode}:\n{done.stdout}")
    return done.stdout


class PackagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="gradwire-packages-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        # gzip takes a tenth of xz's time.
        run("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", cls.folder,
            "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip", cwd=BUILD)
        cls.packages = {package.name.split("_")[0]: package for package in cls.folder.glob("*.deb")}
        cls.root = cls.folder / "root"
        run("dpkg-deb", "--extract", cls.packages["gradwire"], cls.root)

    def field(self, package, name):
        return run("dpkg-deb", "--field", self.packages[package], name).strip()

    def test_contents_as_listed(self):
        self.assertEqual(set(self.packages), set(CONTENTS))
        for package, wanted in CONTENTS.items():
            listing = run("dpkg-deb", "--contents", self.packages[package])
            files = [line.split()[5].removeprefix("./") for line in listing.splitlines()
                     if not line.startswith("d")]
            wanted = wanted + [f"usr/share/doc/{package}/{name}" for name in ("copyright",
                                                                              "changelog.gz")]
            for pattern in wanted:
                self.assertTrue(fnmatch.filter(files, pattern), f"{package} lacks {pattern}")
            self.assertEqual([file for file in files if not
                              any(fnmatch.fnmatch(file, pattern) for pattern in wanted)], [], package)

    def test_depends_on_what_it_is_linked_with(self):
        for name in ("libtorch", "libgrpc++", "libgloo0", "python3"):
            self.assertIn(name, self.field("gradwire", "Depends"))
        self.assertIn("libopenmpi", self.field("gradwire-mpi", "Depends"))
        self.assertNotIn("openmpi", self.field("gradwire", "Depends"))
        version = self.field("libgradwire0", "Version")
        self.assertIn(f"libgradwire0 (= {version})", self.field("libgradwire-dev", "Depends"))
        self.assertIn("libtorch-dev", self.field("libgradwire-dev", "Depends"))
        self.assertEqual(self.field("gradwire-doc", "Architecture"), "all")

    def test_lintian_clean(self):
        user = ["--allow-root"] if os.geteuid() == 0 else []
        run("lintian", *user, "--fail-on", "error,warning", *self.packages.values())

    def test_systemd_units_clean(self):
        units = sorted((self.root / "usr/lib/systemd/system").glob("*.service"))
        self.assertEqual(len(units), 2)
        # What they need of a system.
        for unit in ("network-online.target", "multi-user.target", "sysinit.target", "basic.target",
                     "shutdown.target"):
            shutil.copy(f"/lib/systemd/system/{unit}", units[0].parent)
        out = run("systemd-analyze", "verify", "--man=no", f"--root={self.root}",
                  *("/" + str(unit.relative_to(self.root)) for unit in units))
        self.assertEqual(out, "")

    def test_man_pages_one_for_each_command_and_well_formed(self):
        pages = self.root / "usr/share/man/man1"
        names = {page.name for page in pages.iterdir()}
        self.assertLessEqual({f"gradwire-{command}.1.gz" for command in COMMANDS}, names)
        for page in pages.iterdir():
            out = run("man", "--warnings", "--local-file", "--encoding=UTF-8", page,
                      env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80"})
            self.assertNotIn("warning", out.split("NAME")[0], page.name)
            self.assertRegex(out, r"NAME\n +" + page.name.removesuffix(".1.gz") + " +- ")
        self.assertRegex(out, "SEE ALSO")

    def complete(self, *words):
        """What bash offers behind `words`, the last of which is begun."""
        script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
                  '_gradwire "$1"; printf "%s\n" "${COMPREPLY[@]}"')
        file = self.root / "usr/share/bash-completion/completions/gradwire"
        return run("bash", "-euc", script, "bash", file, *words, cwd=self.folder).split()

    def test_bash_completes_commands_options_and_values(self):
        self.assertEqual(self.complete("gradwire", "la"), ["launch"])
        self.assertIn("--world-size", self.complete("gradwire", "launch", "--wo"))
        self.assertEqual(self.complete("gradwire", "launch", "--", "--syn"), ["--sync"])
        self.assertEqual(self.complete("gradwire-worker", "--sync", "da"), ["data-parallel"])
        self.assertEqual(self.complete("gradwire-worker", "--backend", "=", "ri"), ["ring"])
        self.assertIn("collectives", self.complete("gradwire", "bench", ""))
        self.assertIn("--ops", self.complete("gradwire", "bench", "collectives", "--op"))
        (self.folder / "run.ini").touch()
        self.assertEqual(self.complete("gradwire-worker", "--config", "run"), ["run.ini"])

    def test_completions_shells_take_them(self):
        run("shellcheck", "--shell=bash",
            self.root / "usr/share/bash-completion/completions/gradwire")
        folder = self.root / "usr/share/zsh/vendor-completions"
        run("zsh", "-f", "-n", folder / "_gradwire")
        script = f"fpath=({folder} $fpath); autoload -U compinit; compinit -u -D; print $_comps[gradwire]"
        self.assertEqual(run("zsh", "-f", "-c", script).strip(), "_gradwire")


if __name__ == "__main__":
    unittest.main()
