"""The output of `gradwire launch`."""
import errno
import os
import select

OUT, ERR = 1, 2
STREAMS = {OUT: "stdout", ERR: "stderr"}
CLEAR_LINE = b"\r\x1b[K"
COLUMNS = 80  # without a terminal


def draws_bars():
    """Whether stderr is a terminal that can show bars."""
    return os.isatty(ERR) and os.environ.get("TERM") != "dumb"


class Terminal:
    """Writes whole lines and, on a terminal, a bar below them; `with` removes the bar at its
    end."""

    def __init__(self, draws_bar):
        self.broken = False  # no process reads the output any more
        self.lost = {}  # the first error of each stream that did not take a line
        self._draws_bar = draws_bar
        self._bar = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.set_bar(b"")

    @property
    def bar_columns(self):
        """Returns the current width of stderr in characters; 0 if no bars are drawn."""
        return self._columns() if self._draws_bar else 0

    def print_line(self, fd, line):
        """Writes the line at once, so that lines never mix."""
        if self._bar:
            self._write(ERR, CLEAR_LINE)
        self._write(fd, line + b"\n")
        if self._bar:
            self._write(ERR, self._bar)

    def set_bar(self, text):
        """Replaces the bar; b"" removes it."""
        if not self._draws_bar:
            return
        text = self._fitted(text)
        if text or self._bar:
            self._write(ERR, CLEAR_LINE + text)
        self._bar = text

    def _fitted(self, text):
        # A bar with colors is not cut: half an escape sequence would be worse, and rank 0 knows the
        # width.
        if b"\x1b" in text:
            return text
        characters = text.decode(errors="surrogateescape")[:self._columns() - 1]
        return characters.encode(errors="surrogateescape")

    def _columns(self):
        try:
            columns = os.get_terminal_size(ERR).columns
        except OSError:
            return COLUMNS
        return columns if columns > 1 else COLUMNS

    def _write(self, fd, text):
        while text and not self.broken:
            try:
                text = text[os.write(fd, text):]
            except BlockingIOError:
                select.select([], [fd], [])
            except OSError as error:
                self.broken = error.errno == errno.EPIPE
                if not self.broken:
                    self.lost.setdefault(fd, error.strerror.lower())
                return
