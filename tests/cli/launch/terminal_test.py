"""cli/launch/terminal.py: what reaches a terminal, a file and a pipe."""
import fcntl
import os
import pathlib
import pty
import struct
import subprocess
import sys
import termios
import unittest

SOURCES = pathlib.Path(__file__).resolve().parents[3]
BEGIN = """
from cli.launch.terminal import ERR, OUT, Terminal, draws_bars
with Terminal(draws_bars()) as terminal:
"""
CLEAR = b"\r\x1b[K"


def script(*lines):
    return [sys.executable, "-B", "-c", BEGIN + "".join(f"    {line}\n" for line in lines)]


class TerminalTest(unittest.TestCase):
    def shown(self, *lines, columns=80, environment=None):
        """What a terminal gets of it."""
        outer, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
        subprocess.run(script(*lines), cwd=SOURCES, stdout=inner, stderr=inner, check=True,
                       env={"TERM": "xterm", **(environment or {})})
        os.close(inner)
        with open(outer, "rb", buffering=0) as terminal:
            got = b""
            try:
                while piece := terminal.read(65536):
                    got += piece
            except OSError:  # nobody holds its other end
                pass
        return got.replace(b"\r\n", b"\n")

    def test_bar_stays_below_the_lines_and_goes_at_the_end(self):
        self.assertEqual(self.shown("terminal.set_bar(b'10 %')", "terminal.print_line(OUT, b'x')"),
                         CLEAR + b"10 %" + CLEAR + b"x\n10 %" + CLEAR)

    def test_bar_is_cut_to_the_width(self):
        self.assertEqual(self.shown("terminal.set_bar('aäöü'.encode())", columns=4),
                         CLEAR + "aäö".encode() + CLEAR)

    def test_bar_with_colours_is_not_cut(self):
        self.assertEqual(self.shown(r"terminal.set_bar(b'\x1b[1mabc')", columns=4),
                         CLEAR + b"\x1b[1mabc" + CLEAR)

    def test_dumb_terminal_has_no_bar(self):
        self.assertEqual(self.shown("terminal.set_bar(b'10 %')", "print(terminal.bar_columns)",
                                    environment={"TERM": "dumb"}), b"0\n")

    def test_width_is_the_terminals(self):
        for columns, width in ((33, b"33\n"), (2, b"2\n"), (0, b"80\n")):
            self.assertEqual(self.shown("print(terminal.bar_columns)", columns=columns), width)

    def test_no_terminal_has_no_bar(self):
        done = subprocess.run(script("terminal.set_bar(b'10 %')", "terminal.print_line(OUT, b'x')",
                                     "terminal.print_line(ERR, b'y')"),
                              cwd=SOURCES, capture_output=True, check=True)
        self.assertEqual((done.stdout, done.stderr), (b"x\n", b"y\n"))

    def test_reader_that_has_gone_is_noticed(self):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(script("terminal.print_line(OUT, b'x')",
                                     "raise SystemExit(7 if terminal.broken else 0)"),
                              cwd=SOURCES, stdout=writer, stderr=subprocess.PIPE, check=False)
        os.close(writer)
        self.assertEqual(done.returncode, 7)

    def test_line_that_could_not_be_written_is_remembered(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(script("terminal.print_line(OUT, b'x')",
                                         "terminal.print_line(ERR, b'y')",
                                         "terminal.print_line(ERR, str(terminal.lost).encode())"),
                                  cwd=SOURCES, stdout=full, stderr=subprocess.PIPE, check=True)
        self.assertEqual(done.stderr, b"y\n{1: 'no space left on device'}\n")

    def test_pipe_that_is_full_is_waited_for(self):
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        with subprocess.Popen(script("terminal.print_line(OUT, b'x' * 1000000)"), cwd=SOURCES,
                              stdout=writer) as process, open(reader, "rb") as pipe:
            os.close(writer)
            self.assertEqual(len(pipe.read()), 1000001)
        self.assertEqual(process.returncode, 0)


if __name__ == "__main__":
    unittest.main()
