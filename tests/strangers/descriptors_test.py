"""Connections that do nothing, where few descriptors are to be had."""
import contextlib
import socket
import unittest

import strangers


class DescriptorsTest(strangers.StrangersTest):
    def test_idle_connections_do_not_make_it_deaf(self):
        coordinator = self.coordinator(1, descriptors=64)
        host, port = coordinator.address.rsplit(":", 1)
        with contextlib.ExitStack() as idle:
            for _ in range(80):
                idle.enter_context(socket.create_connection((host, int(port)), 5))
            strangers.wait_for("a word about it", lambda: "connection" in coordinator.text(), 5)
        self.assert_run_goes_well(coordinator, 1)

    def test_idle_connections_are_closed(self):
        coordinator = self.coordinator(1, descriptors=64)
        host, port = coordinator.address.rsplit(":", 1)
        idle = [self.keep(socket.create_connection((host, int(port)), 5)) for _ in range(10)]
        for connection in idle:
            connection.settimeout(15)
            while connection.recv(4096):
                pass
        self.assert_run_goes_well(coordinator, 1)


if __name__ == "__main__":
    unittest.main()
