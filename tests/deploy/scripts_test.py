"""deploy/provision, install-packages, make-certificates, release, images and quickstart, and tests/run,
with stand-ins for ssh, cmake and whatever else they start."""
import hashlib
import os
import shutil
import subprocess
import unittest

from stand_ins import DEPLOY, Scripts

# As sshd, it hands one text to a shell, in a folder of the host's own; 127.0.0.9 is switched off.
SSH = '''while [ "${1#-}" != "$1" ]; do [ "$1" = -o ] && shift; shift; done
[ "$1" = 127.0.0.9 ] && { echo "ssh: no route" >&2; exit 255; }
host=$1; shift
echo "$host: $*" | head -n 1 >> "$SSH_LOG"
exec sh -c "$*"'''
CMAKE = '''echo "cmake $*" >> "$LOG"
case $* in
--preset*) [ -z "$NO_CONFIGURE" ] || { echo "no compiler found"; exit 1; } ;;
--build*) [ -z "$NO_BUILD" ] || { echo "error: it does not compile"; exit 1; }
  mkdir -p build/bin; cp fake-gradwire build/bin/gradwire ;;
esac'''
CPACK = '''while [ "$1" != -B ]; do shift; done
mkdir -p "$2"; echo deb > "$2/gradwire_0.9.0_amd64.deb"'''
GRADWIRE = '''echo "gradwire $*" >> "$LOG"; env | grep ^GRADWIRE_ >> "$LOG"
while [ "$1" != -- ]; do
  case $1 in
  --summary) printf '{"ranks": [{"loss": {"first": 2.25, "last": %s}, "train": {"accuracy": 0.25}%s}]}' \
      "$LAST" "$TEST" > "$2" ;;
  --port-file) printf 'grpc=127.0.0.1:1\\nmetrics=127.0.0.1:2\\n' > "$2" ;;
  esac
  shift
done'''


class Provision(Scripts):
    """All hosts are this machine, so all folders are shared."""

    def setUp(self):
        super().setUp()
        self.ssh_log = self.folder / "ssh-log"
        self.environment["SSH_LOG"] = str(self.ssh_log)
        self.script("bin/ssh", SSH)
        self.script("bin/apt-get", 'echo "apt-get $*" >> "$LOG"')
        self.script("bin/sudo", 'shift; exec "$@"')
        self.script("bin/gradwire", "echo gradwire 9; echo more")
        self.debs = self.folder / "some debs"
        self.debs.mkdir()
        (self.debs / "gradwire_9.deb").touch()

    def hosts(self, *lines):
        file = self.folder / "hosts"
        file.write_text("".join(f"{line}\n" for line in lines))
        return file

    def provision(self, *words):
        return self.run_script(DEPLOY / "provision", *words)

    def test_packages_are_installed_on_every_host_and_its_version_is_told(self):
        code, said = self.provision("--debs", self.debs,
                                    self.hosts("# all", "127.0.0.1 slots=4", "", "127.0.0.2 # x"))
        self.assertEqual(code, 0, said)
        for host in ("127.0.0.1", "127.0.0.2"):
            self.assertIn(f"[{host}] installed gradwire_9.deb\n", said)
            self.assertIn(f"[{host}] done: gradwire 9\n", said)
        self.assertTrue(said.endswith("provision: done on 2 hosts\n"), said)
        self.assertEqual(self.log.read_text().count("/gradwire_9.deb"), 2)

    def test_file_with_the_line_ends_of_windows_names_the_same_hosts(self):
        code, said = self.provision("--debs", self.debs, self.hosts("127.0.0.1\r", "\r", "127.0.0.2\r"))
        self.assertEqual(code, 0, said)
        self.assertTrue(said.endswith("provision: done on 2 hosts\n"), said)
        self.assertNotIn("\r", self.ssh_log.read_text())

    def test_shared_folder_is_left_alone_and_no_mark_stays(self):
        data = self.folder / "data"
        data.mkdir()
        (data / "file").write_text("x")
        code, said = self.provision("--debs", self.debs, "--data", data, self.hosts("127.0.0.1"))
        self.assertEqual(code, 0, said)
        self.assertIn(f"[127.0.0.1] {data} is the same folder there: nothing copied", said)
        self.assertEqual([path.name for path in data.iterdir()], ["file"])

    def test_folder_that_is_not_shared_is_copied(self):
        data = self.folder / "data"
        data.mkdir()
        (data / "file").write_text("x")
        # What is there has another root.
        self.script("bin/ssh", SSH.replace('exec sh -c "$*"', f'mkdir -p {self.folder}/there\n'
                    f'exec sh -c "$(echo "$*" | sed s,{data},{self.folder}/there/data,g)"'))
        code, said = self.provision("--debs", self.debs, "--data", data, self.hosts("127.0.0.1"))
        self.assertEqual(code, 0, said)
        self.assertIn(f"[127.0.0.1] {data} copied", said)
        self.assertEqual((self.folder / "there/data/file").read_text(), "x")

    def test_folder_that_cannot_be_written_is_copied_only_if_it_is_not_shared(self):
        data, there = self.folder / "data", self.folder / "there"
        for folder in (data, there / "data"):
            folder.mkdir(parents=True)
            (folder / "file").write_text("x")
        self.script("bin/mktemp", 'case $* in *gradwire-shared*) echo denied >&2; exit 1 ;; esac\n'
                                  'exec /usr/bin/mktemp "$@"')
        elsewhere = SSH.replace('exec sh -c "$*"',
                                f'exec sh -c "$(echo "$*" | sed s,{data},{there}/data,g)"')
        for ssh, expected in ((SSH, "is the same folder there: nothing copied"),
                              (elsewhere, "copied")):
            self.script("bin/ssh", ssh)
            code, said = self.provision("--debs", self.debs, "--data", data, self.hosts("127.0.0.1"))
            self.assertEqual(code, 0, said)
            self.assertIn(f"[127.0.0.1] {data} {expected}\n", said)
            self.assertNotIn("denied", said)

    def test_folder_that_cannot_be_copied_fails(self):
        data = self.folder / "data"
        data.mkdir()
        # There is neither the folder nor a right to make it.
        self.script("bin/ssh", SSH.replace('exec sh', 'case $* in "test -e"*) exit 1 ;; mkdir*) cat '
                                           '>/dev/null; exit 7 ;; esac\nexec sh'))
        code, said = self.provision("--debs", self.debs, "--data", data, self.hosts("127.0.0.1"))
        self.assertEqual(code, 1, said)
        self.assertIn(f"[127.0.0.1] FAILED: could not copy {data}\n", said)
        self.assertNotIn("done:", said)

    def test_host_that_is_dead_fails_alone(self):
        code, said = self.provision("--debs", self.debs, self.hosts("127.0.0.9", "127.0.0.1"))
        self.assertEqual(code, 1, said)
        self.assertIn("[127.0.0.9] FAILED: ssh 127.0.0.9 true", said)
        self.assertIn("[127.0.0.1] done: gradwire 9", said)
        self.assertIn("provision: 1 of 2 hosts failed: 127.0.0.9\n", said)

    def test_all_hosts_that_fail_are_named(self):
        self.script("bin/ssh", SSH.replace('[ "$1" = 127.0.0.9 ]', 'case $1 in *.9 | *.8) true ;; '
                                           '*) false ;; esac'))
        code, said = self.provision("--debs", self.debs,
                                    self.hosts("127.0.0.9", "127.0.0.1", "127.0.0.8"))
        self.assertEqual(code, 1, said)
        self.assertIn("provision: 2 of 3 hosts failed: 127.0.0.9 127.0.0.8\n", said)

    def test_each_folder_of_data_and_each_package_goes_to_the_host(self):
        folders = [self.folder / name for name in ("data", "more data")]
        for folder in folders:
            folder.mkdir()
        (self.debs / "libgradwire0_9.deb").touch()
        code, said = self.provision("--debs", self.debs, "--data", folders[0], "--data", folders[1],
                                    self.hosts("127.0.0.1"))
        self.assertEqual(code, 0, said)
        self.assertIn("[127.0.0.1] installed gradwire_9.deb libgradwire0_9.deb\n", said)
        for folder in folders:
            self.assertIn(f"[127.0.0.1] {folder} is the same folder there", said)

    def test_package_that_cannot_be_installed_fails(self):
        self.script("bin/apt-get", "exit 100")
        code, said = self.provision("--debs", self.debs, self.hosts("127.0.0.1"))
        self.assertEqual(code, 1, said)
        self.assertIn("FAILED: could not install the .deb files", said)
        self.assertNotIn("done:", said)

    def test_gradwire_that_does_not_run_there_fails(self):
        self.script("bin/gradwire", "exit 127")
        code, said = self.provision("--debs", self.debs, self.hosts("127.0.0.1"))
        self.assertEqual(code, 1, said)
        self.assertIn("FAILED: 'gradwire --version' does not run there", said)

    def test_without_packages_of_ours_the_programs_are_copied(self):
        programs = self.folder / "programs"
        self.script("programs/bin/gradwire", "echo gradwire 8")
        self.script("programs/bin/gradwire-worker", "")
        self.script("programs/bin/other", "")
        (programs / "libexec/gradwire/cli").mkdir(parents=True)
        there = self.folder / "there"
        # What is there has another root, and all of Debian's packages.
        self.script("bin/dpkg-query", 'echo "$4" >> "$LOG"; printf installed')
        self.script("bin/ssh", SSH.replace('exec sh -c "$*"', f'mkdir -p {there}\n'
                    f'exec sh -c "$(echo "$*" | sed s,{programs},{there}/programs,g)"'))
        code, said = self.provision("--programs", programs, self.hosts("127.0.0.1"))
        self.assertEqual(code, 0, said)
        for line in ("packages are installed", f"{programs} copied", "done: gradwire 8"):
            self.assertIn(f"[127.0.0.1] {line}\n", said)
        self.assertEqual(sorted(str(file.relative_to(there)) for file in there.rglob("*")
                                if file.name != "programs"),
                         ["programs/bin", "programs/bin/gradwire", "programs/bin/gradwire-worker",
                          "programs/libexec", "programs/libexec/gradwire",
                          "programs/libexec/gradwire/cli"])
        self.assertIn("libtorch-dev\n", self.log.read_text())
        self.assertNotIn("libgtest-dev\n", self.log.read_text())  # of the tests
        self.script("bin/dpkg-query", "exit 1")
        self.script("bin/apt-get", "exit 100")
        code, said = self.provision("--programs", programs, self.hosts("127.0.0.1"))
        self.assertEqual(code, 1, said)
        self.assertIn("[127.0.0.1] FAILED: could not install the packages\n", said)

    def test_wrong_words_are_refused_before_any_host_is_asked(self):
        empty = self.folder / "empty"
        empty.mkdir()
        hosts, nobody = self.hosts("127.0.0.1"), self.folder / "nobody"
        nobody.write_text("# none\n")
        for words, expected in (
                (["--debs"], "--debs: got no value, expected a folder"),
                (["--debs", "/no/such", hosts], "--debs: got '/no/such', expected a folder"),
                (["--what", empty, hosts], "got --what, expected --debs, --programs or --data"),
                (["--debs", empty, hosts], f"--debs: no .deb file in '{empty}'"),
                (["--programs", empty, hosts], f"no '{empty}/bin/gradwire'; build first"),
                (["--debs", self.debs], "got 0 files, expected one file of hosts"),
                (["--debs", self.debs, hosts, hosts], "got 2 files, expected one"),
                (["--debs", self.debs, "/no/such"], "cannot read '/no/such'"),
                (["--debs", self.debs, nobody], f"no host in '{nobody}'")):
            code, said = self.provision(*words)
            self.assertEqual(code, 2, said)
            self.assertIn(f"provision: {expected}", said)
            self.assertIn("Usage:\n  deploy/provision", said)
        self.assertFalse(self.ssh_log.exists())


class InstallPackages(Scripts):
    """`HAS`: the packages that there are. One of them was removed, and has left its settings."""

    def setUp(self):
        super().setUp()
        self.script("bin/dpkg-query", 'case " $HAS " in *" $4 "*) printf installed ;; '
                                      '*) [ "$4" = file ] && printf config-files || exit 1 ;; esac')
        self.script("bin/apt-get", 'while [ "${1#-}" != "$1" ]; do [ "$1" = -o ] && shift; shift; done\n'
                                   'echo "$*" >>"$LOG"; [ "$1" != "$FAILS" ]')
        self.script("bin/sudo", 'exec "$@"')

    def install(self, *purposes, **environment):
        return self.run_script(DEPLOY / "install-packages", *purposes, **environment)

    def test_only_what_is_missing_of_all_purposes_is_installed(self):
        code, said = self.install("mpi", "package", "docs", HAS="openmpi-bin dpkg-dev furo graphviz")
        self.assertEqual(code, 0, said)
        self.assertEqual(self.log.read_text(), "update\ninstall --no-install-recommends "
                                               "libopenmpi-dev file python3-myst-parser\n")

    def test_nothing_missing_needs_no_apt(self):
        self.assertEqual(self.install("mpi", HAS="openmpi-bin libopenmpi-dev"), (0, ""))
        self.assertEqual(self.log.read_text(), "")

    def test_package_of_two_purposes_is_wanted_for_the_second_too(self):
        self.install("observe", HAS="python3-matplotlib")
        self.assertIn("install --no-install-recommends prometheus\n", self.log.read_text())

    def test_unknown_purpose_among_known_ones_installs_nothing(self):
        code, said = self.install("mpi", "tests", HAS="")
        self.assertEqual(code, 2, said)
        self.assertIn("no packages for 'tests' (known: ", said)
        self.assertEqual(self.log.read_text(), "")

    def test_apt_that_fails_is_told(self):
        for fails, expected in (("update", "apt-get update failed"),
                                ("install", "apt-get could not install libopenmpi-dev openmpi-bin")):
            code, said = self.install("mpi", HAS="", FAILS=fails)
            self.assertEqual(code, 1, said)
            self.assertIn(f"install-packages: {expected}", said)


class Certificates(Scripts):
    """With the real openssl."""

    def make(self, *words):
        code, said = self.run_script(DEPLOY / "make-certificates", "--out", "made", *words)
        self.assertEqual(code, 0, said)

    def openssl(self, *words):
        done = subprocess.run(["openssl", *words], cwd=self.folder / "made", check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return done.returncode, done.stdout

    def lasts(self, name, days):
        return self.openssl("x509", "-in", name, "-noout", "-checkend", str(days * 86400))[0] == 0

    def test_each_host_has_all_its_names_and_files_that_only_the_owner_reads(self):
        self.make("node0,10.10.1.1", "::1,node1")
        for name, names in (("node0", "DNS:node0, IP Address:10.10.1.1"),
                            ("__1", "IP Address:0:0:0:0:0:0:0:1, DNS:node1")):
            _, said = self.openssl("x509", "-in", f"{name}.pem", "-noout", "-ext", "subjectAltName")
            self.assertIn(names, said)
        files = {path.name: path.stat().st_mode & 0o077 for path in (self.folder / "made").iterdir()}
        self.assertEqual(files, dict.fromkeys(["ca.key", "ca.pem", "node0.key", "node0.pem", "__1.key",
                                               "__1.pem"], 0))

    def test_days_are_those_of_the_certificates_alone(self):
        self.make("--days", "3", "node0", "node1")
        for name, days in (("node0.pem", 3), ("node1.pem", 3), ("ca.pem", 3650)):
            self.assertEqual([self.lasts(name, days + more) for more in (-1, 1)], [True, False], name)

    def test_host_whose_files_would_be_those_of_the_ca_is_refused(self):
        for host in ("ca", "ca,10.10.1.1"):
            code, said = self.run_script(DEPLOY / "make-certificates", "--out", "made", "node0", host)
            self.assertEqual(code, 2, said)
            self.assertIn(f"make-certificates: got '{host}', whose files would replace the CA's;", said)
        self.assertFalse((self.folder / "made").exists())
        self.make("node0,ca")

    def test_ca_without_its_key_is_not_replaced(self):
        self.make("node0")
        files = {path: path.read_bytes() for path in (self.folder / "made").iterdir()}
        key = self.folder / "made/ca.key"
        key.unlink()
        code, said = self.run_script(DEPLOY / "make-certificates", "--out", "made", "node0", "node1")
        self.assertEqual(code, 1, said)
        self.assertIn("make-certificates: got made/ca.pem without made/ca.key, expected both or neither",
                      said)
        del files[key]
        self.assertEqual({path: path.read_bytes() for path in (self.folder / "made").iterdir()}, files)

    def test_certificates_are_for_both_ends_of_a_call_and_only_the_ca_signs(self):
        self.make("node0", "node1")
        _, said = self.openssl("x509", "-in", "node0.pem", "-noout", "-ext",
                               "extendedKeyUsage,keyUsage,basicConstraints")
        for words in ("TLS Web Server Authentication, TLS Web Client Authentication", "CA:FALSE",
                      "Digital Signature"):
            self.assertIn(words, said)
        _, said = self.openssl("x509", "-in", "ca.pem", "-noout", "-ext", "keyUsage,basicConstraints")
        for words in ("CA:TRUE", "Certificate Sign"):
            self.assertIn(words, said)
        serials = {self.openssl("x509", "-in", f"{name}.pem", "-noout", "-serial")[1]
                   for name in ("node0", "node1")}
        self.assertEqual(len(serials), 2)

    def test_folder_and_days_that_are_not_told_are_those_of_the_help(self):
        code, said = self.run_script(DEPLOY / "make-certificates", "node0")
        self.assertEqual(code, 0, said)
        self.assertRegex(said, r"^certificates/node0\.pem: node0, until .* GMT\n$")
        (self.folder / "certificates").rename(self.folder / "made")
        self.assertEqual([self.lasts("node0.pem", days) for days in (29, 31)], [True, False])

    def test_new_certificate_replaces_the_one_of_the_host_with_its_key(self):
        self.make("--days", "3", "node0")
        old = (self.folder / "made/node0.key").read_bytes()
        self.make("--days", "9", "node0")
        self.assertNotEqual((self.folder / "made/node0.key").read_bytes(), old)
        self.assertTrue(self.lasts("node0.pem", 8))
        keys = {self.openssl(*words, "-pubout" if words[0] == "pkey" else "-pubkey")[1] for words in (
            ("pkey", "-in", "node0.key"), ("x509", "-in", "node0.pem", "-noout"))}
        self.assertEqual(len(keys), 1)

    def test_ca_that_is_there_signs_certificates_of_further_hosts(self):
        self.make("node0")
        ca = (self.folder / "made/ca.pem").read_bytes()
        self.make("node1")
        self.assertEqual((self.folder / "made/ca.pem").read_bytes(), ca)
        for name in ("node0.pem", "node1.pem"):
            self.assertEqual(self.openssl("verify", "-CAfile", "ca.pem", name)[0], 0, name)


class Run(Scripts):
    """tests/run, in a checkout of three files."""

    def setUp(self):
        super().setUp()
        self.script("bin/cmake", 'echo "cmake $*" >> "$LOG"')
        self.script("bin/ctest", 'printf "<%s>" "$@" >> "$LOG"\n'
                    'env | grep -c ^GRADWIRE_ >> "$LOG" || true')
        self.script("checkout/deploy/install-packages", 'echo "install $*" >> "$LOG"')
        (self.folder / "checkout/tests").mkdir()
        for name in ("deploy/arguments.sh", "tests/run"):
            shutil.copy(DEPLOY.parent / name, self.folder / "checkout" / name)

    def run_tests(self, *words, **environment):
        """What ctest was given, and how many settings it found."""
        code, said = self.run_script(self.folder / "checkout/tests/run", *words, **environment)
        self.assertEqual(code, 0, said)
        return self.log.read_text().splitlines()[-1]

    def test_ctest_gets_all_options_and_what_stands_behind_the_dashes(self):
        given = self.run_tests("-R", "a b", "--long", "--output-on-failure", "--", "-N", "-j", "9")
        self.assertRegex(given, "^<--preset><release><--parallel><[0-9]+><-R><a b><--build-config><Long>"
                                "<--output-on-failure><-N><-j><9>0$")

    def test_help_behind_the_dashes_is_of_ctest(self):
        self.assertTrue(self.run_tests("--", "--help").endswith("><--help>0"))

    def test_tests_find_no_settings(self):
        self.assertRegex(self.run_tests(GRADWIRE_SYNC="ddp", GRADWIRE_LR="1"),
                         "^<--preset><release><--parallel><[0-9]+>0$")

    def test_packages_are_installed_and_programs_built_first(self):
        self.run_tests()
        self.assertRegex(self.log.read_text(), "^install build mpi package data docs test\ncmake --preset release "
                         ".*\ncmake --build --preset release .*\n<--preset>")


class Release(Scripts):
    """In a checkout of three files."""

    def setUp(self):
        super().setUp()
        self.script("bin/cmake", CMAKE)
        self.script("bin/cpack", CPACK)
        self.checkout = self.folder / "checkout"
        self.script("checkout/deploy/install-packages", 'echo "install $*" >> "$LOG"')
        for name in ("release", "arguments.sh"):
            shutil.copy(DEPLOY / name, self.checkout / "deploy")
        (self.checkout / "CMakeLists.txt").write_text("project(gradwire VERSION 0.9.0 LANGUAGES)\n")
        (self.checkout / "fake-gradwire").touch()
        (self.checkout / ".gitignore").write_text("/build/\n")
        self.git("init", "-q")
        self.git("add", ".")
        self.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first")

    def git(self, *words):
        subprocess.run(["git", *words], cwd=self.checkout, check=True, env=self.environment)

    def release(self, *words, **environment):
        return self.run_script(self.checkout / "deploy/release", *words, **environment)

    def out(self, name="out"):
        return self.folder / name

    def test_sources_packages_and_their_sums_are_made(self):
        code, said = self.release(self.out())
        self.assertEqual(code, 0, said)
        names = sorted(path.name for path in self.out().iterdir())
        self.assertEqual(names, ["SHA256SUMS", "gradwire-0.9.0.tar.gz", "gradwire_0.9.0_amd64.deb"])
        sums = dict(reversed(line.split("  ")) for line in
                    (self.out() / "SHA256SUMS").read_text().splitlines())
        for name in names[1:]:
            self.assertEqual(sums[name],
                             hashlib.sha256((self.out() / name).read_bytes()).hexdigest())
        self.assertIn("install build package\n", self.log.read_text())

    def test_relative_folder_is_below_the_callers(self):
        code, said = self.release("out")
        self.assertEqual(code, 0, said)
        self.assertTrue((self.out() / "SHA256SUMS").exists())
        self.assertFalse((self.checkout / "out").exists())

    def test_archive_has_what_is_committed_below_the_version_and_the_same_bytes_again(self):
        for name in ("out", "again"):
            code, said = self.release(self.out(name))
            self.assertEqual(code, 0, said)
            os.utime(self.checkout / "fake-gradwire", (1, 1))  # as of another checkout
        archives = [self.out(name) / "gradwire-0.9.0.tar.gz" for name in ("out", "again")]
        self.assertEqual(archives[0].read_bytes(), archives[1].read_bytes())
        listed = subprocess.run(["tar", "-tzf", archives[0]], check=True, text=True,
                                stdout=subprocess.PIPE).stdout.split()
        self.assertEqual(listed, [f"gradwire-0.9.0/{name}" for name in (
            ".gitignore", "CMakeLists.txt", "deploy/arguments.sh", "deploy/install-packages",
            "deploy/release", "fake-gradwire")])

    def test_what_is_not_committed_is_refused_unless_told(self):
        (self.checkout / "new").touch()
        code, said = self.release(self.out())
        self.assertEqual((code, said), (2, "release: not committed: new; commit it, or give "
                                        "--uncommitted\n"))
        self.assertFalse(self.out().exists())
        self.assertEqual(self.release(self.out(), "--uncommitted")[0], 0)

    def test_build_that_fails_shows_its_end_and_keeps_its_log(self):
        code, said = self.release(self.out(), NO_BUILD="1")
        self.assertEqual(code, 1)
        self.assertIn("error: it does not compile", said)
        self.assertIn(f"release: could not build the packages (log: {self.out()}/log)", said)
        self.assertTrue((self.out() / "log").exists())

    def test_folder_with_something_in_it_is_refused(self):
        self.out().mkdir()
        (self.out() / "mine").touch()
        self.assertEqual(self.release(self.out()), (
            1, f"release: {self.out()} is not empty; give another folder\n"))
        self.assertEqual([path.name for path in self.out().iterdir()], ["mine"])

    def test_wrong_words_are_refused(self):
        for words, expected in (([], "got no folder for the files"),
                                (["--what", "out"], "unknown option --what"),
                                (["a", "b"], "got two folders, 'a' and 'b', expected one"),
                                (["--uncommitted"], "got no folder for the files")):
            code, said = self.release(*words)
            self.assertEqual(code, 2)
            self.assertIn(f"release: {expected}\nUsage:\n  deploy/release OUT", said)
        self.assertEqual(self.log.read_text(), "")

    def test_help_is_no_error(self):
        code, said = self.release("--help")
        self.assertEqual(code, 0)
        self.assertIn("deploy/release OUT [--uncommitted]", said)

    def test_sources_without_git_are_refused(self):
        shutil.rmtree(self.checkout / ".git")
        code, said = self.release(self.out(), GIT_CEILING_DIRECTORIES=str(self.folder))
        self.assertEqual(code, 2)
        self.assertIn("this is not a git checkout", said)


class Quickstart(Scripts):
    def setUp(self):
        super().setUp()
        self.script("bin/cmake", CMAKE)
        self.script("fake-gradwire", GRADWIRE)
        self.script("deploy/install-packages", 'echo "install $*" >> "$LOG"')
        for name in ("quickstart", "arguments.sh"):
            shutil.copy(DEPLOY / name, self.folder / "deploy")

    def quickstart(self, last="1.5", test=', "test": {"accuracy": 0.5}', **environment):
        return self.run_script(self.folder / "deploy/quickstart", LAST=last, TEST=test, **environment)

    def quickstart_with(self, *words):
        return self.run_script(self.folder / "deploy/quickstart", *words)

    def test_loss_that_fell_is_told_with_the_accuracy(self):
        code, said = self.quickstart()
        self.assertEqual(code, 0, said)
        self.assertIn("== Trained: loss from 2.25 to 1.50, test accuracy 50.0 %\n", said)
        self.assertIn("http://127.0.0.1:2/metrics", said)
        self.assertIn("\nThis was a short run: 100 iterations of 2 x 64 images.\n", said)
        results = "build/quickstart"
        self.assertIn("gradwire launch --workers 2 --listen 127.0.0.1:0 --metrics 127.0.0.1:0 "
                      f"--port-file {results}/ports --summary {results}/summary.json -- "
                      "--sync gather-scatter --backend coordinator --model vgg11 --dataset fashion-mnist "
                      "--batch-size 64 --iterations 100 --lr 0.005 --print-every 10 --evaluate\n",
                      self.log.read_text())
        self.assertTrue(self.log.read_text().startswith(
            "install build data\ncmake --preset release -DGRADWIRE_BUILD_TESTS=OFF\n"))

    def test_loss_that_did_not_fall_fails(self):
        for last in ("2.25", "9.5"):
            code, said = self.quickstart(last)
            self.assertEqual(code, 1)
            self.assertIn(f"quickstart: the loss did not fall (first 2.25, last {last})", said)

    def test_run_without_test_accuracy_fails(self):
        for test in ("", ', "test": {"accuracy": null}'):
            code, said = self.quickstart(test=test)
            self.assertEqual(code, 1, said)
            self.assertIn("quickstart: no losses or no test accuracy of rank 0 in ", said)
            self.assertNotIn("Trained", said)

    def test_who_has_built_before_keeps_the_tests(self):
        (self.folder / "build").mkdir()
        (self.folder / "build/CMakeCache.txt").touch()
        self.quickstart()
        self.assertIn("cmake --preset release\n", self.log.read_text())

    def test_variables_of_this_shell_do_not_reach_the_run(self):
        code, said = self.quickstart(GRADWIRE_LR="9", GRADWIRE_MODEL="lenet")
        self.assertEqual(code, 0, said)
        self.assertNotIn("GRADWIRE_LR=", self.log.read_text())
        self.assertNotIn("GRADWIRE_MODEL=", self.log.read_text())

    def test_words_are_refused_before_anything_is_installed(self):
        code, said = self.quickstart_with("--fast")
        self.assertEqual((code, said), (2, "quickstart: got '--fast', expected no arguments\n"
                                           "Usage:\n  deploy/quickstart\n"))
        self.assertEqual(self.log.read_text(), "")

    def test_configuration_that_fails_is_shown(self):
        code, said = self.quickstart(NO_CONFIGURE="1")
        self.assertEqual(code, 1)
        self.assertIn("no compiler found", said)
        self.assertIn("quickstart: cmake could not configure the build", said)
        self.assertNotIn("== Training", said)

    def test_build_that_fails_trains_nothing(self):
        code, said = self.quickstart(NO_BUILD="1")
        self.assertNotEqual(code, 0)
        self.assertNotIn("== Training", said)

    def test_results_of_an_earlier_run_are_not_taken_for_this_ones(self):
        results = self.folder / "build/quickstart"
        results.mkdir(parents=True)
        (results / "summary.json").write_text('{"ranks": [{"loss": {"first": 2, "last": 1}, "test": {"accuracy": 1}}]}')
        self.script("fake-gradwire", "exit 1")
        code, said = self.quickstart()
        self.assertEqual(code, 1)
        self.assertNotIn("Trained", said)
        self.assertFalse((results / "summary.json").exists())


class Images(Scripts):
    """A stand-in for mmdebstrap notes its words, of which the last is the file."""

    def setUp(self):
        super().setUp()
        self.script("bin/mmdebstrap", '[ -z "$FAILS" ] || exit 25\nfor word; do :; done; echo "$@" '
                                      '>>"$LOG"; touch "$word"')
        self.script("bin/dpkg-deb", 'case $3 in Package) echo "$NAME" ;; *) echo 0.9.0 ;; esac')
        self.environment["NAME"] = "gradwire"
        self.package = self.folder / "a gradwire.deb"
        self.package.touch()

    def images(self, *words, **environment):
        return self.run_script(DEPLOY / "images", *words, **environment)

    def test_two_images_and_the_commands_that_import_them(self):
        code, said = self.images(self.package, "out")
        self.assertEqual(code, 0, said)
        self.assertEqual(sorted(file.name for file in (self.folder / "out").iterdir()),
                         ["gradwire.tar", "prometheus.tar"])
        made = [line.split(" --include=") for line in self.log.read_text().splitlines()]
        self.assertEqual(made[0][1:3], [str(self.package), "dataset-fashion-mnist"])
        self.assertEqual([line[1] for line in made[1:]], ["prometheus " + made[0][-1].split()[-2] +
                                                          " out/prometheus.tar"])
        for line, program in zip(said.splitlines(), ("gradwire", "prometheus")):
            self.assertIn(f""" --change 'CMD ["{program}"]' """, line)
        self.assertEqual([(line.split()[:2], line.split()[-2:]) for line in said.splitlines()],
                         [(["podman", "import"], ["out/gradwire.tar", "gradwire:0.9.0"]),
                          (["podman", "import"], ["out/prometheus.tar", "prometheus"])])

    def test_what_is_no_package_of_gradwire(self):
        for words, name, expected in ((["x.deb", "out"], "gradwire", "got 'x.deb', expected a Debian"),
                                      ([self.package, "out"], "vim", "got package 'vim', expected"),
                                      ([self.package], "gradwire", "expected a package and a folder")):
            with self.subTest(expected):
                code, said = self.images(*words, NAME=name)
                self.assertEqual(code, 2)
                self.assertIn(expected, said)
                self.assertFalse((self.folder / "out").exists())

    def test_image_that_cannot_be_made(self):
        code, said = self.images(self.package, "out", FAILS="yes")
        self.assertEqual((code, said), (1, "images: mmdebstrap could not make out/gradwire.tar\n"))


if __name__ == "__main__":
    unittest.main()
