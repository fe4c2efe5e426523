"""cli/hosts/probe.py: what a host says of itself, here of this machine."""
import hashlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

SOURCES = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(SOURCES))
from cli.hosts import probe


class Network(unittest.TestCase):
    def test_loopback_is_among_the_interfaces(self):
        found = {name: (address, bits, mtu) for name, address, bits, mtu in probe.interfaces()}
        address, bits, mtu = found["lo"]
        self.assertEqual((address, bits), ("127.0.0.1", 8))
        self.assertGreaterEqual(mtu, 1500)

    def test_names_have_each_address_once_and_in_order(self):
        entries = [(0, 0, 0, "", (address, 0)) for address in ("10.0.0.2", "10.0.0.1", "10.0.0.2")]
        with mock.patch("socket.getaddrinfo", return_value=entries):
            self.assertEqual(probe.addresses_of("h"), ["10.0.0.1", "10.0.0.2"])

    def test_name_that_nobody_has_means_nothing(self):
        with mock.patch("socket.getaddrinfo", side_effect=socket.gaierror):
            self.assertEqual(probe.addresses_of("h"), [])
        self.assertEqual(probe.addresses_of("a..b"), [])  # a name that cannot be

    def test_address_of_another_is_not_held(self):
        self.assertTrue(probe.holds("127.0.0.1"))
        self.assertFalse(probe.holds("192.0.2.1"))  # RFC 5737: nobody's

    def test_way_to_itself_is_from_itself(self):
        self.assertEqual(probe.used_towards("127.0.0.1"), "127.0.0.1")
        with mock.patch("socket.socket.connect", side_effect=OSError):
            self.assertEqual(probe.used_towards("10.0.0.1"), "")

    def test_port_that_is_taken_is_told(self):
        with socket.socket() as listener:
            listener.bind(("0.0.0.0", 0))
            listener.listen()
            self.assertEqual(probe.port_problem(listener.getsockname()[1]),
                             "address already in use")
        self.assertEqual(probe.port_problem(0), "")


class Programs(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def program(self, script):
        path = self.folder / "program"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o700)
        return str(path)

    def test_sharing_is_what_gradwire_env_says(self):
        says = self.program("""test "$*" = "env --json" && echo '{"shared-memory": {"value": "off"}}'""")
        self.assertEqual(probe.answer({"program": str(says), "sharing": True})["sharing"], "off")

    def test_sharing_of_a_program_that_says_nothing_is_not_known(self):
        for script in ("exit 1", "echo nonsense", "echo '{}'"):
            self.assertRegex(probe.sharing_of(str(self.program(script))),
                             "^not known: gradwire env: ")

    def test_version_is_the_first_line(self):
        self.assertEqual(probe.version_of(self.program("echo ' gradwire 1 '; echo more")),
                         ("gradwire 1", ""))
        self.assertEqual(probe.version_of(self.program("")), ("", ""))

    def test_program_that_fails_or_is_missing_has_none(self):
        for program, why in ((self.program("exit 3"), "exit status 3"),
                             ("/no/such", "No such file or directory")):
            version, problem = probe.version_of(program)
            self.assertEqual(version, "")
            self.assertIn(why, problem)

    def test_what_cannot_be_run_is_missing(self):
        plain = self.folder / "plain"
        plain.touch(0o600)
        asked = [self.program(""), str(plain), str(self.folder), "/no/such"]
        self.assertEqual(probe.answer({"programs": asked})["missing"], asked[1:])


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return path

    def test_data_are_counted_with_folders_below(self):
        self.write("b", b"12")
        self.write("a/c", b"345")
        found = probe.data_in(self.folder, False)
        self.assertEqual(found["files"], {"b": [2, ""], "a/c": [3, ""]})
        self.assertEqual((found["count"], found["bytes"], found["problem"]), (2, 5, ""))

    def test_link_without_a_target_is_no_file(self):
        self.write("b", b"12")
        (self.folder / "a").symlink_to("missing")
        (self.folder / "c").symlink_to("b")
        found = probe.data_in(self.folder, True)
        self.assertEqual((list(found["files"]), found["problem"]), (["b", "c"], ""))

    def test_sums_are_of_the_content(self):
        self.write("b", b"12")
        digest = hashlib.sha256(b"12").hexdigest()
        self.assertEqual(probe.data_in(self.folder, True)["files"], {"b": [2, digest]})
        before = probe.data_in(self.folder, True)["sum"], probe.data_in(self.folder, False)["sum"]
        self.write("b", b"13")
        after = probe.data_in(self.folder, True)["sum"], probe.data_in(self.folder, False)["sum"]
        self.assertNotEqual(before[0], after[0])
        self.assertEqual(before[1], after[1])  # same name and size

    def test_sums_are_made_for_who_asks_for_them(self):
        self.write("b", b"12")
        digest = hashlib.sha256(b"12").hexdigest()
        for asked, expected in (({}, ""), ({"sums": True}, digest)):
            found = probe.answer({"folder": str(self.folder), **asked})["data"]
            self.assertEqual(found["files"], {"b": [2, expected]})

    def test_sum_tells_names_apart(self):
        self.write("b", b"12")
        before = probe.data_in(self.folder, True)["sum"]
        (self.folder / "b").rename(self.folder / "c")
        self.assertNotEqual(probe.data_in(self.folder, True)["sum"], before)

    def test_many_files_are_counted_but_not_all_named(self):
        for name in "abc":
            self.write(name, b"1")
        with mock.patch.object(probe, "MOST_NAMES", 2):
            found = probe.data_in(self.folder, False)
            self.write("c", b"2")
            other = probe.data_in(self.folder, True)
            self.write("c", b"3")
            third = probe.data_in(self.folder, True)
        self.assertEqual((list(found["files"]), found["count"], found["bytes"]), (["a", "b"], 3, 3))
        self.assertNotEqual(other["sum"], third["sum"])  # of the files without a name, too

    def test_folder_that_is_not_there_says_why(self):
        found = probe.data_in("/no/such", True)
        self.assertEqual((found["problem"], found["count"]), ("no such file or directory", 0))
        self.assertEqual(probe.data_in(self.write("b", b""), True)["problem"], "not a directory")

    def test_size_of_what_is_not_there_is_none(self):
        self.assertEqual(probe.size_of(self.write("b", b"123")), 3)
        self.assertIsNone(probe.size_of(self.folder / "c"))

    def test_value_is_of_the_line_with_that_name_alone(self):
        lines = ["model name\t: Fast: 9", "model\t: 3", "flags : a b"]
        for name, expected in (("model", "3"), ("model name", "Fast: 9"), ("none", "")):
            self.assertEqual(probe.value_in(lines, name), expected)


class Machine(unittest.TestCase):
    LINES = {"/proc/cpuinfo": ["model name : M", "flags : avx fma"],
             "/proc/meminfo": ["MemTotal: 9 kB", "MemAvailable: 3 kB"],
             "/proc/loadavg": ["7.52 6.00 5.00 3/200 4711"]}
    ARM = {**LINES, "/proc/cpuinfo": ["CPU part : 0xd0c", "Features : asimd"], "/proc/meminfo": []}

    def machine(self, lines):
        with mock.patch.object(probe, "lines_of", lines.get):
            return probe.machine()

    def test_processor_and_memory_are_read(self):
        found = self.machine(self.LINES)
        self.assertEqual((found["model"], found["flags"], found["memory"], found["load"]),
                         ("M", ["avx", "fma"], 3072, 7.52))
        self.assertGreaterEqual(found["cpus"], found["cores"])

    def test_other_processors_have_other_names(self):
        found = self.machine(self.ARM)
        self.assertEqual((found["model"], found["flags"], found["memory"]), ("0xd0c", ["asimd"], 0))

    def test_cores_are_those_that_a_program_may_use_and_cpus_all(self):
        with mock.patch.object(os, "sched_getaffinity", lambda pid: {3}), \
                mock.patch.object(os, "cpu_count", lambda: 8):
            found = self.machine(self.LINES)
        self.assertEqual((found["cores"], found["cpus"]), (1, 8))

    def test_free_room_is_what_a_user_may_fill(self):
        disk = mock.Mock(f_bavail=3, f_bfree=5, f_blocks=9, f_frsize=4096, f_bsize=1 << 20)
        with mock.patch.object(os, "statvfs", lambda path: disk):
            self.assertEqual(self.machine(self.LINES)["free"], 3 * 4096)

    def test_room_is_that_of_tmpdir(self):
        with tempfile.TemporaryDirectory() as folder:
            with mock.patch.dict(os.environ, {"TMPDIR": folder}):
                found = self.machine(self.LINES)
        self.assertEqual(found["temporary"], folder)
        self.assertGreater(found["free"], 0)


class Answer(unittest.TestCase):
    def test_what_was_not_asked_is_not_there(self):
        answers = probe.answer({})
        self.assertEqual({"version", "data", "port_problem"} & answers.keys(), set())
        self.assertEqual((answers["missing"], answers["means"], answers["held"], answers["from"],
                          answers["sizes"]), ([], {}, [], {}, {}))

    def test_each_question_has_its_answer(self):
        answers = probe.answer({"holds": ["127.0.0.1", "192.0.2.1"], "towards": ["127.0.0.1"],
                                "files": ["/no/such"], "folder": "/no/such", "port": 65536 - 1,
                                "names": ["a..b"], "program": "/no/such"})
        self.assertEqual(answers["held"], ["127.0.0.1"])
        self.assertEqual(answers["from"], {"127.0.0.1": "127.0.0.1"})
        self.assertEqual((answers["sizes"], answers["means"]), ({"/no/such": None}, {"a..b": []}))
        self.assertEqual(answers["data"]["problem"], "no such file or directory")
        self.assertTrue(answers["version_problem"])
        self.assertIn("port_problem", answers)

    def test_as_text_without_any_module_of_ours_it_prints_json(self):
        script = (SOURCES / "cli/hosts/probe.py").read_text()
        said = subprocess.run([sys.executable, "-I", "-S", "-c", script, '{"files": ["/no"]}'],
                              cwd="/", check=True, stdout=subprocess.PIPE).stdout
        self.assertEqual(json.loads(said)["sizes"], {"/no": None})


if __name__ == "__main__":
    unittest.main()
