"""cli/hosts/agent.py: what it makes of the frames that come, however they are cut."""
import json
import os
import pathlib
import select
import signal
import sys
import tempfile
import time
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.hosts.agent import (BEAT, CHUNK_BYTES, END, ERR, HEADER, HELLO, MAGIC, MOST_UNSENT, OUT,
                             PID, SIGNAL, START, Agent, MemoryKills, memory_group)

LONG = 30


def frame(kind, number, payload=b""):
    return HEADER.pack(kind, number, len(payload)) + payload


def order(script, **more):
    return json.dumps({"argv": ["/bin/sh", "-c", script], "environment": {}, **more}).encode()


class AgentTest(unittest.TestCase):
    """Its stdin and stdout are in its place: what is fed, and `unsent`."""

    def setUp(self):
        self.agent = Agent({"silence": 5})
        self.agent.unsent.clear()
        self.addCleanup(self.end)

    def end(self):
        self.agent.end_all()
        for program in self.agent.programs.values():
            program.popen.stdout.close()
            program.popen.stderr.close()

    def feed(self, *pieces):
        read, left = os.read, [*pieces]
        with mock.patch("os.read", lambda fd, size: read(fd, size) if fd else left.pop(0)):
            for _ in pieces:
                self.agent.take()

    def sent(self):
        """(kind, number, payload) of all frames."""
        data, frames = bytes(self.agent.unsent), []
        self.agent.unsent.clear()
        while data:
            kind, number, length = HEADER.unpack_from(data)
            frames.append((kind, number, data[HEADER.size:HEADER.size + length]))
            data = data[HEADER.size + length:]
        return frames

    def run_to_the_end(self):
        """Reads as turn() does, until all programs have ended. Gives the frames after the one that
        tells the id of the program's process."""
        ((_, program),) = self.agent.programs.items()
        deadline, frames = time.monotonic() + LONG, []
        while self.agent.programs:
            self.assertLess(time.monotonic(), deadline)
            pipes = {fd: one for one in self.agent.programs.values() for fd in one.pipes}
            for fd in select.select([*pipes], [], [], 0.02)[0]:
                self.agent.read(pipes[fd], fd)
            self.agent.look_for_ends()
            frames += self.sent()
        self.assertEqual(frames[0], (PID, program.number, str(program.popen.pid).encode()))
        return frames[1:]

    def test_magic_comes_before_all_else(self):
        self.assertTrue(Agent({"silence": 5}).unsent.startswith(MAGIC))

    def test_beat_is_answered_with_its_number_and_the_time(self):
        self.feed(frame(BEAT, 7))
        ((kind, number, payload),) = self.sent()
        self.assertEqual((kind, number), (BEAT, 7))
        self.assertLess(abs(float(payload) - time.time()), LONG)

    def test_frames_may_be_cut_anywhere(self):
        both = frame(BEAT, 1, b"padding") + frame(BEAT, 2)
        for cut in range(1, len(both)):
            self.feed(both[:cut], both[cut:])
            self.assertEqual([number for _, number, _ in self.sent()], [1, 2], cut)

    def test_end_of_stdin_is_the_end(self):
        self.feed(frame(BEAT, 1))
        self.assertFalse(self.agent.gone)
        self.feed(b"")
        self.assertTrue(self.agent.gone)

    def test_program_tells_outputs_and_end_in_this_order(self):
        self.feed(frame(START, 3, order("cat; echo bad >&2; exit 5", stdin="given")))
        frames = self.run_to_the_end()
        self.assertEqual(sorted(frames[:-1]), [(OUT, 3, b"given"), (ERR, 3, b"bad\n")])
        self.assertEqual(frames[-1], (END, 3, b"5"))

    def test_program_killed_tells_the_signal(self):
        self.feed(frame(START, 3, order("exec sleep 1000")), frame(SIGNAL, 3, b"9"))
        self.assertEqual(self.run_to_the_end(), [(END, 3, b"-9")])

    def test_variables_are_beside_those_of_the_host(self):
        with mock.patch.dict(os.environ, {"HERE": "1"}):
            self.feed(frame(START, 3, order("echo $HERE $MORE", environment={"MORE": "2"})))
        self.assertIn((OUT, 3, b"1 2\n"), self.run_to_the_end())

    def test_program_that_cannot_be_started_has_ended_with_127(self):
        self.feed(frame(START, 3, json.dumps({"argv": ["/no/such"], "environment": {}}).encode()))
        self.assertEqual(self.sent(), [(ERR, 3, b"cannot start '/no/such': No such file or "
                                        b"directory\n"), (END, 3, b"127")])
        self.assertEqual(self.agent.programs, {})

    def test_signal_for_one_that_has_ended_is_nothing(self):
        self.feed(frame(SIGNAL, 4, b"9"))
        self.assertEqual(self.sent(), [])

    def test_signal_for_nobody_says_that_logs_were_fetched(self):
        self.feed(frame(SIGNAL, 0))
        self.assertTrue(self.agent.fetched)

    def test_silence_ends_it(self):
        wake, woken = os.pipe()
        self.addCleanup(os.close, wake)
        self.addCleanup(os.close, woken)
        self.agent.heard = time.monotonic() - 6
        with mock.patch("select.select", return_value=([], [], [])):
            self.agent.turn(wake)
        self.assertTrue(self.agent.gone)

    def test_much_that_is_unsent_holds_programs_back(self):
        self.feed(frame(START, 3, order("echo out")))
        self.agent.send(OUT, 3, bytes(MOST_UNSENT))
        with mock.patch("select.select", return_value=([], [], [])) as waited:
            self.agent.turn(-1)
        (readers, writers, _, _), _ = waited.call_args
        self.assertEqual((readers, writers), ([0, -1], [1]))

    def test_reader_that_is_gone_ends_it_and_a_slow_one_does_not(self):
        for error, gone in ((BlockingIOError, False), (BrokenPipeError, True)):
            self.agent.send(OUT, 3, b"x")
            with mock.patch("os.write", side_effect=error):
                self.agent.write()
            self.assertEqual(self.agent.gone, gone)
            self.assertEqual(self.sent(), [(OUT, 3, b"x")])

    def test_only_what_was_taken_leaves(self):
        self.agent.unsent += bytes(CHUNK_BYTES + 9)
        with mock.patch("os.write", return_value=5) as write:
            self.agent.write()
        self.assertEqual(len(self.agent.unsent), CHUNK_BYTES + 4)
        self.assertEqual(len(write.call_args[0][1]), CHUNK_BYTES)


class Folder(unittest.TestCase):
    def setUp(self):
        self.tmp = self.enterContext(tempfile.TemporaryDirectory())
        self.enterContext(mock.patch.dict(os.environ, {"TMPDIR": self.tmp}))
        self.agent = Agent({"silence": 5})
        self.agent.unsent.clear()

    def hello(self, name):
        self.agent.greet(name)
        kind, number, length = HEADER.unpack_from(self.agent.unsent)
        self.assertEqual((kind, number), (HELLO, 0))
        return json.loads(bytes(self.agent.unsent[HEADER.size:]))

    def test_folder_is_made_for_its_user_alone(self):
        hello = self.hello("mine")
        self.assertEqual(hello, {"folder": os.path.join(self.tmp, "mine"), "problem": ""})
        self.assertEqual(os.stat(hello["folder"]).st_mode & 0o777, 0o700)
        self.assertEqual(os.listdir(hello["folder"]), [])

    def test_folder_of_another_is_refused_and_left(self):
        os.mkdir(os.path.join(self.tmp, "mine"))
        self.assertIn("cannot write to '%s/mine': file exists" % self.tmp,
                      self.hello("mine")["problem"])
        self.agent.end_all()
        self.assertEqual(os.listdir(self.tmp), ["mine"])

    def test_disk_that_is_full_is_told(self):
        with mock.patch("builtins.open", side_effect=OSError(28, "")):
            self.assertIn("no space left on device", self.hello("mine")["problem"])

    def test_folder_goes_at_the_end_unless_logs_are_in_it(self):
        for logs, fetched, stays in ((False, False, False), (True, False, True),
                                     (True, True, False)):
            agent = Agent({"silence": 5})
            agent.greet("mine")
            if logs:
                pathlib.Path(agent.folder, "log-0.jsonl").touch()
            agent.fetched = fetched
            agent.end_all()
            self.assertEqual(os.path.exists(agent.folder), stays)
            if stays:
                agent.fetched = True
                agent.end_all()


class MemoryTest(unittest.TestCase):
    """Folders in place of /sys/fs/cgroup, with the files of both versions of cgroups."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, name, text):
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def group(self, processes):
        """Of a process whose /proc/.../cgroup has this text."""
        self.write("proc", processes)
        with (mock.patch("cli.hosts.agent.CGROUPS", str(self.folder)),
              mock.patch("cli.hosts.agent.open", lambda name: open(
                  self.folder / "proc" if name == "/proc/7/cgroup" else name), create=True)):
            return memory_group(7).removeprefix(str(self.folder))

    def test_group_of_version_1(self):
        self.write("memory/a/memory.oom_control", "oom_kill 0\n")
        self.assertEqual(self.group("5:cpu:/a\n4:hugetlb,memory:/a\n0::/a\n"), "/memory/a")

    def test_group_of_version_2(self):
        self.write("a/b/memory.events", "oom_kill 0\n")
        self.assertEqual(self.group("0::/a/b\n"), "/a/b")

    def test_group_in_a_container_is_on_top(self):
        self.write("memory/memory.oom_control", "oom_kill 0\n")
        self.assertEqual(self.group("4:memory:/libpod/1\n0::/libpod/1\n"), "/memory")

    def test_no_group_where_none_limits_memory(self):
        self.assertEqual(self.group("5:cpu:/a\n0::/\n"), "")

    def test_each_kill_explains_one_end(self):
        for count, limit, value, why in (
                ("memory.events", "memory.max", "314572800", ": the limit is 300 MiB"),
                ("memory.events", "memory.max", "max", ""),
                ("memory.oom_control", "memory.limit_in_bytes", str((1 << 63) - 4096), "")):
            with self.subTest(limit=limit, value=value):
                self.setUp()
                self.write(count, "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
                self.write(limit, value + "\n")
                kills = MemoryKills(str(self.folder))
                self.assertEqual(kills.explain(-9), "")  # both were earlier
                self.write(count, "oom 1\noom_kill 3\n")
                self.assertEqual(kills.explain(-15), "")
                self.assertEqual(kills.explain(-9), "because memory ran out" + why)
                self.assertEqual(kills.explain(-9), "")

    def test_two_kills_at_the_same_time_explain_two_ends(self):
        self.write("memory.events", "oom_kill 0\n")
        kills = MemoryKills(str(self.folder))
        self.write("memory.events", "oom_kill 2\n")
        self.assertEqual([kills.explain(-9) for _ in range(3)],
                         ["because memory ran out", "because memory ran out", ""])

    def test_without_a_group_nothing_is_explained(self):
        self.assertEqual(MemoryKills("").explain(-9), "")


if __name__ == "__main__":
    unittest.main()
