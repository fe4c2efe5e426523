"""cli/runs/output_file.py: files that are written as a whole."""
import errno
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

SOURCES = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(SOURCES)]
from cli.runs.failure import Failure
from cli.runs.output_file import check_writable, replace_file


class OutputFile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        self.path = self.dir / "out"

    def names(self):
        return {path.name for path in self.dir.iterdir()}

    def test_old_file_is_replaced_by_another(self):
        self.path.write_text("old, and longer")
        with open(self.path, encoding="ascii") as opened:
            replace_file(str(self.path), b"new")
            self.assertEqual(opened.read(), "old, and longer")
        self.assertEqual(self.path.read_text(), "new")
        self.assertEqual(self.names(), {"out"})

    def test_content_and_then_name_reach_the_disk(self):
        """Else a power failure could leave the new name with no content, or the old name."""
        calls = []
        real_fsync, real_replace = os.fsync, os.replace

        def fsync(fd):
            calls.append(("fsync", os.path.isdir(f"/dev/fd/{fd}")))
            real_fsync(fd)

        def replace(*paths):
            calls.append("replace")
            real_replace(*paths)

        with mock.patch("os.fsync", fsync), mock.patch("os.replace", replace):
            replace_file(str(self.path), b"new")
        self.assertEqual(calls, [("fsync", False), "replace", ("fsync", True)])

    def test_folder_that_cannot_be_synced_is_told_unless_no_file_system_of_its_kind_can(self):
        real_fsync = os.fsync
        for error, is_told in ((errno.EIO, True), (errno.EINVAL, False)):
            def fsync(fd, error=error):
                if os.path.isdir(f"/dev/fd/{fd}"):
                    raise OSError(error, os.strerror(error))
                real_fsync(fd)

            with self.subTest(error=error), mock.patch("os.fsync", fsync):
                if is_told:
                    self.assertRaisesRegex(Failure, "^cannot write .*: input/output error$",
                                           replace_file, str(self.path), b"new")
                else:
                    replace_file(str(self.path), b"new")
                self.assertEqual(self.names(), {"out"})

    def test_link_is_followed(self):
        (self.dir / "link").symlink_to("out")
        self.path.write_text("old")
        replace_file(str(self.dir / "link"), "ä")
        self.assertEqual(self.path.read_text(), "ä")
        self.assertTrue((self.dir / "link").is_symlink())

    def test_link_to_where_nothing_can_be_written_is_told(self):
        link = self.dir / "link"
        link.symlink_to("no/out")
        for function in (check_writable, lambda path: replace_file(path, b"text")):
            self.assertRaisesRegex(Failure, f"^cannot write {link}: no such file or directory$",
                                   function, str(link))
        self.assertEqual(self.names(), {"link"})

    def test_pipe_is_written_to_in_place(self):
        reader, writer = os.pipe()
        check_writable(f"/dev/fd/{writer}")
        replace_file(f"/dev/fd/{writer}", b"text")
        os.close(writer)
        with open(reader, "rb") as pipe:
            self.assertEqual(pipe.read(), b"text")

    def test_own_descriptor_of_a_file_goes_on_after_what_stands_there(self):
        with open(self.path, "wb", buffering=0) as file:
            path = f"/dev/fd/{file.fileno()}"
            file.write(b"a")
            check_writable(path)
            replace_file(path, b"bc")
            file.write(b"d")
        self.assertEqual(self.path.read_text(), "abcd")
        self.assertEqual(self.names(), {"out"})
        with self.assertRaisesRegex(Failure, "cannot write"):
            check_writable(path)
        with open(self.path, "rb") as read_only:
            with self.assertRaisesRegex(Failure, "bad file descriptor|Bad file descriptor"):
                check_writable(f"/dev/fd/{read_only.fileno()}")
        with self.assertRaisesRegex(Failure, "cannot write"):
            check_writable(f"/dev/fd/{10 ** 30}")

    def test_what_cannot_be_written_is_told_and_leaves_no_part(self):
        self.path.mkdir()
        for path, why in ((self.path, "is a directory"),
                          (self.dir / "no" / "out", "no such file or directory")):
            for function in (check_writable, lambda path: replace_file(path, b"text")):
                with self.assertRaises(Failure) as raised:
                    function(str(path))
                self.assertEqual(str(raised.exception), f"cannot write {path}: {why}")
        self.assertEqual(self.names(), {"out"})

    def test_disk_that_fails_leaves_the_old_file_and_no_part(self):
        self.path.write_text("old")
        with mock.patch("os.fsync", side_effect=OSError(28, "No space left on device")):
            with self.assertRaisesRegex(Failure, "^cannot write .*: no space left on device$"):
                replace_file(str(self.path), b"new")
        self.assertEqual(self.path.read_text(), "old")
        self.assertEqual(self.names(), {"out"})

    def test_check_changes_nothing(self):
        check_writable(str(self.path))
        self.assertEqual(self.names(), set())
        self.path.write_text("old")
        check_writable(str(self.path))
        self.assertEqual(self.path.read_text(), "old")


if __name__ == "__main__":
    unittest.main()
