"""Splits a program's output, which comes in pieces of any size, into lines."""
import re

LONGEST_LINE = 64 << 10
ENDS = re.compile(rb"(\n)")
ENDS_WITH_BARS = re.compile(rb"([\r\n])")


class LineSplitter:
    """Passes each line to `on_line`, without its end; one longer than 64 KiB in parts.

    With `on_bar`, text that ends with "\\r" is a progress bar and goes there at once; without,
    "\\r" is an ordinary character. "\\r\\n" ends a line in both cases; a bar that ends so is
    removed (b"") and becomes a line. A stream with bars loses spaces at the end, which only cover
    the rest of a longer bar.
    """

    def __init__(self, on_line, on_bar=None):
        self._on_line = on_line
        self._on_bar = on_bar
        self._ends = ENDS_WITH_BARS if on_bar else ENDS
        self._text = b""
        self._last_bar = None  # a line after all, if "\n" comes next

    def feed(self, piece):
        for token in self._ends.split(piece):
            if token == b"\n":
                self._end_line()
            elif token == b"\r" and self._on_bar:
                self._last_bar = self._take()
                self._on_bar(self._last_bar)
            elif token:
                self._add(token)

    def flush(self):
        """Passes on the last line if it has no end."""
        self._last_bar = None
        if self._text:
            self._end_line()

    def _add(self, text):
        self._last_bar = None
        self._text += text
        while len(self._text) >= LONGEST_LINE:
            self._on_line(self._text[:LONGEST_LINE])
            self._text = self._text[LONGEST_LINE:]

    def _end_line(self):
        line = self._take()
        if self._last_bar is not None:
            line, self._last_bar = self._last_bar, None
            self._on_bar(b"")
        self._on_line(line.removesuffix(b"\r"))

    def _take(self):
        text, self._text = self._text, b""
        return text.rstrip() if self._on_bar else text
