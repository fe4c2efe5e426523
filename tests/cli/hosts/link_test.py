"""cli/hosts/link.py and agent.py, with an ssh that runs everything on this machine."""
import base64
import json
import os
import pathlib
import signal
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.hosts.agent import BEAT, END, ERR, HEADER, HELLO, MAGIC, OUT, START
from cli.hosts.link import Link, RemoteProcess, agent_words, raise_unready
from cli.runs.failure import EXIT_USAGE, Failure
from cli.runs.process import Command
from cli.runs.process_set import ProcessSet

LONG = 30
# As sshd, it hands one text to a shell, which may greet; 127.0.0.9 is switched off.
SSH = '''#!/bin/sh
while [ "${1#-}" != "$1" ]; do [ "$1" = -o ] && shift; shift; done
host=$1
[ "$host" = 127.0.0.9 ] && { echo "ssh: connect to host $host port 22: No route" >&2; exit 255; }
shift
echo "Welcome to $host"
TMPDIR=${0%/*} exec sh -c "$*"
'''


def gone(pid):
    """Or a zombie, which its new parent has not looked at yet."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


class LinkTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.ssh = self.folder / "ssh"
        self.ssh.write_text(SSH)
        self.ssh.chmod(0o700)
        self.processes = self.enterContext(ProcessSet())

    def link(self, name="127.0.0.1", lease=10):
        link = Link(name, str(self.ssh), self.processes, lease)
        self.until(lambda: link.ready or link.lost)
        return link

    def until(self, ready):
        deadline = time.monotonic() + LONG
        while not ready():
            self.assertLess(time.monotonic(), deadline)
            self.processes.wait(0.1)

    def start(self, link, script, *words, **more):
        return self.processes.add(Command(["/bin/sh", "-c", script, "sh", *words], {}, link=link,
                                          **more))

    def finished(self, link, script, *words, **more):
        program = self.start(link, script, *words, **more)
        self.until(lambda: program.ended)
        return program

    def with_pid(self, link, script):
        program = self.start(link, f"echo $$; {script}")
        self.until(lambda: b"\n" in program.out)
        return program, int(program.out)

    def test_program_is_known_by_its_process_and_host(self):
        link = self.link()
        program, pid = self.with_pid(link, "exec sleep 1000")
        self.assertEqual((program.pid, program.place), (pid, f"process {pid} on host 127.0.0.1"))
        program.signal(signal.SIGKILL)

    def test_program_that_was_not_started_is_known_by_its_host(self):
        link = self.link("127.0.0.9")
        program = self.start(link, "true")
        self.until(lambda: program.ended)
        self.assertEqual(program.place, "host 127.0.0.9")

    def test_program_runs_with_words_as_they_are(self):
        said = self.finished(self.link(), 'printf "%s|" "$@"; cat; echo bad >&2; exit 3',
                             "a b", "$HOME", "it's\n", stdin="given")
        self.assertEqual((said.out, said.err), (b"a b|$HOME|it's\n|given", b"bad\n"))
        self.assertEqual((said.status, said.end), (3, "ended with exit code 3"))

    def test_what_it_prints_comes_whole(self):
        said = self.finished(self.link(), "head -c 5000000 /dev/zero")
        self.assertEqual(len(said.out), 5000000)

    def test_signal_reaches_it_and_what_it_started(self):
        program, pid = self.with_pid(self.link(), "sleep 1000; true")
        program.signal(signal.SIGTERM)
        self.until(lambda: program.ended)
        self.assertEqual(program.end, "was killed by signal 15 (Terminated)")
        self.until(lambda: gone(pid))

    def test_its_end_is_explained_by_the_other_side(self):
        link = self.link()
        program = link._programs[99] = RemoteProcess(link, 99, None, None, lambda: None)
        link._take(END, 99, b"-9 because memory ran out")
        self.assertEqual(program.end, "was killed by signal 9 (Killed) because memory ran out")

    def test_what_it_left_behind_ends_with_it(self):
        said = self.finished(self.link(), "sleep 1000 >/dev/null 2>&1 & echo $!")
        self.until(lambda: gone(int(said.out)))

    def test_missing_program_is_named(self):
        program = self.processes.add(Command(["/no/such"], {}, link=self.link()))
        self.until(lambda: program.ended)
        self.assertEqual(program.status, 127)
        self.assertIn(b"cannot start '/no/such': No such file", program.err)

    def test_closed_link_ends_programs_and_removes_its_folder(self):
        link = self.link()
        _, pid = self.with_pid(link, 'trap "" TERM; while :; do sleep 0.1; done')
        self.assertTrue(os.path.isdir(link.folder))
        link.close()
        self.until(lambda: gone(pid) and not os.path.exists(link.folder))

    def test_folder_with_logs_stays_until_they_are_fetched(self):
        for fetched in (False, True):
            link = self.link()
            log = pathlib.Path(link.folder, "log-0.jsonl")
            log.write_text("{}")
            if fetched:
                link.forget_logs()
            link.close()
            self.until(lambda: link._ssh.ended)
            self.assertEqual(log.exists(), not fetched)
            if not fetched:
                log.unlink()
                log.parent.rmdir()

    def test_silence_of_this_side_ends_the_other(self):
        link = self.link(lease=5)
        _, pid = self.with_pid(link, "exec sleep 1000")
        began = time.monotonic()
        while not gone(pid):  # nobody calls wait(), so nothing is sent
            self.assertLess(time.monotonic() - began, LONG)
            time.sleep(0.05)

    def test_silence_of_the_other_side_loses_the_host(self):
        link = self.link(lease=5)
        program, _ = self.with_pid(link, "exec sleep 1000")
        agent = int(self.finished(link, "echo $PPID").out)
        os.kill(agent, signal.SIGSTOP)
        self.addCleanup(os.kill, agent, signal.SIGKILL)
        self.until(lambda: program.ended)
        self.assertEqual((program.status, program.end),
                         (75, "was lost: host 127.0.0.1: was silent for 5 s"))

    def test_program_on_a_lost_host_ends_at_once(self):
        link = self.link("127.0.0.9")
        self.assertEqual(self.finished(link, "true").status, 75)

    def test_dead_hosts_are_named(self):
        links = [self.link(), self.link("127.0.0.9")]
        with self.assertRaises(Failure) as raised:
            raise_unready(links)
        self.assertEqual(str(raised.exception), "host 127.0.0.9: ssh ended with exit code 255: "
                         "ssh: connect to host 127.0.0.9 port 22: No route")
        self.assertEqual(raised.exception.exit_code, EXIT_USAGE)

    def test_no_room_for_temporary_files_is_told(self):
        self.ssh.write_text(SSH.replace("exec sh", "TMPDIR=/no/folder exec sh"))
        with self.assertRaisesRegex(Failure, "host 127.0.0.1: cannot write to '/no/folder/"):
            raise_unready([self.link()])

    def test_time_of_the_other_side_is_known(self):
        link = self.link()
        link.beat()
        self.until(lambda: not link.awaits_time)
        self.assertLess(abs(link.clock_ahead), 1)


class FakeSsh:
    """A connection that takes `room` bytes at a time."""
    end = "ended with exit code 255"

    def __init__(self):
        self.room = 1 << 20
        self.written = b""
        self.signals = []

    def write(self, text):
        taken = bytes(text[:self.room])
        self.written += taken
        return len(taken)

    def signal(self, number):
        self.signals.append(number)


class FakeSet:
    def __init__(self):
        self.ssh = FakeSsh()

    def connect(self, _link, command):
        self.command = command
        return self.ssh


def frame(kind, number, payload=b""):
    return HEADER.pack(kind, number, len(payload)) + payload


HELLO_FRAME = frame(HELLO, 0, b'{"folder": "/tmp/f", "problem": ""}')


class Frames(unittest.TestCase):
    """What a link makes of what comes, without any other side."""

    def setUp(self):
        self.set = FakeSet()
        self.link = Link("h", "ssh", self.set, 10)
        self.ended = []

    def start(self):
        program = self.link.start(Command(["/bin/x"], {}), None, None,
                                  lambda: self.ended.append(program))
        return program

    def test_greeting_of_a_shell_and_frames_may_be_cut_anywhere(self):
        program = self.start()
        everything = (b"Welcome\n" + MAGIC + HELLO_FRAME + frame(OUT, 1, b"out") +
                      frame(ERR, 1, b"err") + frame(END, 1, b"3"))
        for byte in everything:
            self.link.feed(bytes([byte]))
        self.assertTrue(self.link.ready)
        self.assertEqual((program.out, program.err, program.status), (b"out", b"err", 3))
        self.assertEqual(self.ended, [program])

    def test_nothing_is_ready_before_the_greeting(self):
        self.link.feed(HELLO_FRAME)
        self.assertFalse(self.link.ready)

    def test_connection_that_is_full_gets_the_rest_later(self):
        self.set.ssh.room = 5
        self.start()
        self.assertEqual(len(self.set.ssh.written), 5)
        self.set.ssh.room = 1 << 20
        self.link.tick()
        kind, number, length = HEADER.unpack_from(self.set.ssh.written)
        self.assertEqual((kind, number), (START, 1))
        self.assertEqual(len(self.set.ssh.written), HEADER.size + length)

    def test_end_of_ssh_ends_programs_with_what_it_said(self):
        program = self.start()
        self.link.take_error(b"\n".join(b"line %d" % i for i in range(9)) + b"\n\n")
        self.link.on_end()
        self.assertEqual(self.link.lost, "host h: ssh ended with exit code 255: line 5; line 6; "
                         "line 7; line 8")
        self.assertEqual((program.status, program.end), (75, f"was lost: {self.link.lost}"))

    def test_no_answer_at_all_is_lost(self):
        self.link._started -= 31
        self.link.tick()
        self.assertEqual(self.link.lost, "host h: did not answer within 30 s")
        self.assertEqual(self.set.ssh.signals, [signal.SIGKILL])

    def test_program_that_does_not_end_when_killed_loses_the_host(self):
        self.link.feed(MAGIC + HELLO_FRAME)
        program = self.start()
        program.signal(signal.SIGKILL)
        program.kill_by -= 2
        self.link.tick()
        self.assertIn("when its programs were to end", self.link.lost)
        self.assertTrue(program.failed)

    def test_rest_that_a_lost_connection_still_had_is_dropped(self):
        self.link.feed(MAGIC + HELLO_FRAME)
        program = self.start()
        program.signal(signal.SIGKILL)
        program.kill_by -= 2
        self.link.tick()
        self.link.feed(frame(OUT, 1, b"late") + frame(END, 1, b"-9"))
        self.assertEqual((program.out, program.status, self.ended), (b"", 75, [program]))

    def test_signal_after_the_end_is_not_sent(self):
        self.link.feed(MAGIC + HELLO_FRAME)
        program = self.start()
        self.link.feed(frame(END, 1, b"0"))
        before = self.set.ssh.written
        program.signal(signal.SIGTERM)
        self.assertEqual(self.set.ssh.written, before)
        self.assertFalse(program.failed)

    def test_closed_link_sends_no_more_and_is_lost_for_that(self):
        self.link.feed(MAGIC + HELLO_FRAME)
        self.link.close()
        before = self.set.ssh.written
        self.link.beat()
        self.assertEqual(self.set.ssh.written, before)
        self.link.on_end()
        self.assertEqual(self.link.lost, "host h: the connection was closed")

    def test_quickest_beat_tells_the_time(self):
        self.link.feed(MAGIC + HELLO_FRAME)
        for round_trip, ahead in ((0.5, 100), (0.1, 7), (0.3, 100)):
            self.link.beat()
            number, (sent, here) = self.link._beats.popitem()
            self.link._beats[number] = sent - round_trip, here
            self.link.feed(frame(BEAT, number, repr(here + round_trip / 2 + ahead).encode()))
        self.assertAlmostEqual(self.link.clock_ahead, 7, delta=0.2)
        self.assertLess(self.link.round_trip, 0.3)
        self.assertFalse(self.link.awaits_time)

    def test_clock_of_the_other_side_was_read_half_way(self):
        self.link.feed(MAGIC + HELLO_FRAME)
        self.link.beat()
        number, (sent, here) = self.link._beats.popitem()
        self.link._beats[number] = sent - 100, here
        self.link.feed(frame(BEAT, number, repr(here + 50).encode()))
        self.assertAlmostEqual(self.link.clock_ahead, 0, delta=10)

    def test_lease_leaves_the_other_side_time_to_notice_first(self):
        for lease, expected in ((1, 5), (5, 5), (60, 60)):
            processes = FakeSet()
            self.assertEqual(Link("h", "ssh", processes, lease)._lease, expected)
            settings = json.loads(base64.b64decode(processes.command.argv[-1].split()[-1]))
            self.assertEqual((settings["silence"], settings["start_in"]), (expected - 2, os.getcwd()))

    def test_silence_counts_since_the_last_piece(self):
        self.link.feed(MAGIC + HELLO_FRAME)
        self.link._heard -= 100
        self.link.feed(HELLO_FRAME)
        self.link._heard -= 9
        self.link.tick()
        self.assertEqual(self.link.lost, "")
        self.link._heard -= 2
        self.link.tick()
        self.assertEqual(self.link.lost, "host h: was silent for 10 s")

    def test_host_that_is_quiet_before_its_greeting_is_not_lost_for_that(self):
        self.link._heard -= 20
        self.link.tick()
        self.assertEqual((self.link.lost, self.set.ssh.written), ("", b""))

    def test_other_side_gets_a_beat_each_second(self):
        self.link.feed(MAGIC + HELLO_FRAME)
        beats = []
        for later in (0, 0, 1):
            self.link._beat_at -= later
            self.link.tick()
            beats.append(len(self.set.ssh.written) // HEADER.size)
        self.assertEqual(beats, [1, 1, 2])

    def test_program_has_a_second_to_end_from_the_first_time_it_is_killed(self):
        self.link.feed(MAGIC + HELLO_FRAME)
        program = self.start()
        program.signal(signal.SIGTERM)
        self.assertIsNone(program.kill_by)
        program.signal(signal.SIGKILL)
        program.kill_by -= 0.5
        by = program.kill_by
        program.signal(signal.SIGKILL)
        self.assertEqual(program.kill_by, by)

    def test_host_that_is_not_ready_did_not_answer(self):
        with self.assertRaisesRegex(Failure, "^host h: did not answer$"):
            raise_unready([self.link])
        self.link.feed(MAGIC + HELLO_FRAME)
        raise_unready([self.link])

    def test_of_what_ssh_said_the_end_is_kept(self):
        self.link.take_error(b"first\n" + b"x" * 5000)
        self.link.take_error(b"\nlast\n")
        self.link.on_end()
        self.assertTrue(self.link.lost.endswith("x; last"), self.link.lost)
        self.assertLess(len(self.link.lost), 4200)

    def test_agent_is_words_that_any_shell_takes(self):
        words = agent_words({"silence": 3, "name": "x", "start_in": "/it's"})
        self.assertEqual(words[:5], ["exec", "python3", "-I", "-S", "-c"])
        for character in "!$`\\\n":
            self.assertNotIn(character, "".join(words))


if __name__ == "__main__":
    unittest.main()
