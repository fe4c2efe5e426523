"""A run of a stranger's own: a layout that no machine has room for."""
import unittest

import strangers
from http2 import Connection, field


class LayoutTest(strangers.StrangersTest):
    def test_bucket_of_64_gib_costs_nothing(self):
        coordinator = self.coordinator(1)
        before = strangers.status_of(coordinator.pid, "VmRSS")
        stranger = self.keep(Connection(coordinator.address))
        stream = stranger.open("/gradwire.v1.Membership/Session")
        stranger.send(stream, strangers.hello(77))
        strangers.wait_for("the run", lambda: coordinator.status()["state"] == "running", 10)
        tensor = field(1, "weight")
        bucket = field(1, 1 << 36) + field(2, 1)
        stranger.send(stream, strangers.checked(field(7, field(2, tensor) + field(3, bucket)), 1))
        stranger.wait(2)
        after = strangers.status_of(coordinator.pid, "VmRSS")
        print(f"\na bucket of 64 GiB: {after - before} KiB")
        self.assertLess(after - before, 8 << 10)


if __name__ == "__main__":
    unittest.main()
