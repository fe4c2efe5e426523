"""Control characters and long texts in what strangers say."""
import subprocess
import unittest

import strangers
from http2 import Connection, field

CLEAR = "\x1b[2J"
FORGED = "node0:1\n2026-01-01 00:00:00.000 error the run failed"


class WordsTest(strangers.StrangersTest):
    def say(self, message):
        connection = self.keep(Connection(self.coordinator_.address))
        stream = connection.open("/gradwire.v1.Membership/Session")
        connection.send(stream, message)
        return connection, stream

    def setUp(self):
        super().setUp()
        self.coordinator_ = self.coordinator(2)

    def log(self, text):
        return strangers.wait_for(text, lambda: text in self.coordinator_.text()
                                  and self.coordinator_.text(), 10)

    def assert_harmless(self, text):
        self.assertNotIn("\x1b", text)
        self.assertFalse([line for line in text.splitlines() if line.startswith("2026-01-01")])
        self.assertLess(max(map(len, text.splitlines())), 2000)

    def test_address_of_a_hello(self):
        for address in (CLEAR + "node0:1", FORGED, "x" * 40000 + ":1"):
            connection, stream = self.say(strangers.hello(77, address))
            self.assertTrue(connection.ended(stream, 5))
        self.assert_harmless(self.log("refused"))

    def test_reason_of_a_leave(self):
        self.say(strangers.hello(78) + b"")
        connection, stream = self.say(strangers.hello(79))
        connection.send(stream, strangers.checked(field(5, field(2, CLEAR + FORGED + "y" * 40000)), 1))
        self.assertTrue(connection.ended(stream, 5))
        self.assert_harmless(self.log("it left"))
        status = subprocess.run(
            [strangers.BIN / "gradwire", "status", f"http://{self.coordinator_.metrics}"],
            capture_output=True, text=True, timeout=30)
        self.assert_harmless(status.stdout + status.stderr)

    def test_settings_of_a_hello(self):
        setting = field(1, "model") + field(2, CLEAR + "z" * 40000)
        connection, stream = self.say(strangers.hello(80, fields=[(7, setting)]))
        self.assertTrue(connection.ended(stream, 5))
        self.assert_harmless(self.log("refused"))


if __name__ == "__main__":
    unittest.main()
