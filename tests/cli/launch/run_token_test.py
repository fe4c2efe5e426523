"""cli/launch/run_token.py: the secret of a launch."""
import pathlib
import stat
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.launch.run_token import read_token, token_of, write_token
from cli.runs.failure import EXIT_USAGE, Failure


class Token(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name, "token")

    def test_without_a_file_each_is_another_one(self):
        first, second = token_of(""), token_of("")
        self.assertNotEqual(first, second)
        self.assertRegex(first, "^[0-9a-f]{64}$")

    def test_file_that_is_not_there(self):
        with self.assertRaisesRegex(Failure, "cannot read '.*token': no such file") as raised:
            read_token(str(self.path))
        self.assertEqual(raised.exception.exit_code, EXIT_USAGE)

    def test_what_is_written_is_read_again_and_nobody_else_can(self):
        token = token_of("")
        write_token(str(self.path), token)
        self.assertEqual(token_of(str(self.path)), token)
        self.assertEqual(stat.S_IMODE(self.path.stat().st_mode), 0o600)

    def test_end_of_line_is_not_of_it(self):
        self.path.write_text("a-secret-of-some-length\r\n\n")
        self.assertEqual(read_token(str(self.path)), "a-secret-of-some-length")

    def test_what_is_none_is_refused_and_not_shown(self):
        for text in (b"too-short", b"", b"a" * 1025, b"two lines-of\nsecret-words",
                     "a-secret-with-ä".encode()):
            self.path.write_bytes(text)
            with self.assertRaisesRegex(Failure, "got no token in '.*token', expected 16 to") as raised:
                read_token(str(self.path))
            self.assertNotIn("secret", str(raised.exception).replace(str(self.path), ""))

    def test_file_that_stands_there_is_not_followed(self):
        self.path.symlink_to("elsewhere")
        with self.assertRaisesRegex(Failure, "cannot write '.*token': file exists"):
            write_token(str(self.path), "a-secret-of-some-length")
        self.assertFalse(self.path.with_name("elsewhere").exists())


if __name__ == "__main__":
    unittest.main()
