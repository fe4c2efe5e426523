"""Sessions of a coordinator that strangers open."""
import contextlib
import itertools
import os
import signal
import time
import unittest

import strangers
from http2 import Connection

SESSION = "/gradwire.v1.Membership/Session"


class SessionTest(strangers.StrangersTest):
    def deaf(self, coordinator):
        """A worker that takes nothing, and asks for much."""
        self.numbers = itertools.count(1)
        connection = self.keep(Connection(coordinator.address, window=0))
        stream = connection.open(SESSION)
        connection.send(stream, strangers.hello(77))
        for _ in range(20):
            self.ask(connection, stream)
        connection.wait(0.5)
        return connection, stream

    def ask(self, connection, stream):
        connection.send(stream, strangers.heartbeat(next(self.numbers)))

    def test_worker_that_reads_nothing_does_not_keep_the_coordinator(self):
        coordinator = self.coordinator(2, "--rendezvous-timeout-seconds", "3")
        begin = time.monotonic()
        deaf, stream = self.deaf(coordinator)
        with contextlib.suppress(OSError):
            while coordinator.running() and time.monotonic() < begin + 20:
                self.ask(deaf, stream)
                deaf.wait(0.3)
        print(f"\nbeside a deaf worker a rendezvous of 3 s took {time.monotonic() - begin:.1f} s")
        self.assertEqual(coordinator.wait(1), 1, coordinator.text())
        self.assertIn("1 of 2 workers came within 3 s", coordinator.text())

    def test_worker_that_reads_nothing_does_not_hold_up_the_other(self):
        coordinator = self.coordinator(2)
        self.deaf(coordinator)
        other = self.keep(Connection(coordinator.address))
        stream = other.open(SESSION)
        other.send(stream, strangers.hello(78))
        self.assertTrue(other.wait(5, lambda: other.received > 0), "no View came")

    def test_time_in_which_the_coordinator_stood_still_is_nobodys(self):
        coordinator = self.coordinator(2, "--lease-seconds", "2")
        deaf, stream = self.deaf(coordinator)
        os.kill(coordinator.pid, signal.SIGSTOP)
        time.sleep(3)
        os.kill(coordinator.pid, signal.SIGCONT)
        self.ask(deaf, stream)
        self.assertFalse(deaf.ended(stream, 0.6), coordinator.text())
        self.assertNotIn("read no message", coordinator.text())

    def test_worker_that_reads_nothing_is_lost(self):
        coordinator = self.coordinator(2, "--lease-seconds", "2")
        deaf, stream = self.deaf(coordinator)
        deadline = time.monotonic() + 20
        while not deaf.ended(stream, 0.3) and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                self.ask(deaf, stream)
        strangers.wait_for("its loss", lambda: "read no message for 2s" in coordinator.text(), 5)

    def test_silent_sessions_are_bounded_and_end(self):
        coordinator = self.coordinator(2)
        before = strangers.status_of(coordinator.pid, "Threads")
        connections = [self.keep(Connection(coordinator.address)) for _ in range(20)]
        streams = [(c, c.open(SESSION)) for c in connections for _ in range(20)]
        for connection in connections:
            connection.wait(0.1)
        most = strangers.status_of(coordinator.pid, "Threads")
        memory = strangers.status_of(coordinator.pid, "VmRSS")
        print(f"\n400 silent sessions: {before} threads before, {most} with them, {memory} KiB")
        self.assertLess(most, before + 60)
        deadline = time.monotonic() + 10
        for connection, stream in streams:  # so that none is kept waiting
            self.assertTrue(connection.ended(stream, max(0, deadline - time.monotonic())))
        self.assert_run_goes_well(coordinator, 2)


if __name__ == "__main__":
    unittest.main()
