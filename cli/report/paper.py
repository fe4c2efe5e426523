"""A report on A4 pages, as PDF: headings, paragraphs, tables and figures, one below the other."""
import io
import textwrap

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cli.report.figures import draw, plain

# Lengths are in inches, sizes of letters in points.
WIDTH, HEIGHT = 8.27, 11.69
MARGIN = 0.8
TITLE, HEADING, TEXT, CELL = 15, 11, 9, 6.5
LINE = 1.4 / 72  # height for each point of size
LETTER, TABLE_LETTER, BOLD = 0.54 / 72, 0.6 / 72, 1.15  # mean width, likewise; of bold ones, relative
GAP = 2  # letters between columns
LEAST_CELL = 6  # letters
DOTS = 220  # of a figure, for each inch
KEPT_TOGETHER = 1.2  # below a heading
# Matplotlib's other type of fonts has only 256 letters that a reader can copy, and − is none of them.
FONTS = {"pdf.fonttype": 42}


def shared(widths, least, most):
    """Returns the widths of columns, made smaller until all fit into `most`, the widest ones first,
    none below its `least`."""
    widths = list(widths)
    while sum(widths) > most:
        shrinking = [column for column, width in enumerate(widths) if width - 1 >= least[column]]
        if not shrinking:
            break
        widths[max(shrinking, key=widths.__getitem__)] -= 1
    return widths


def longest_word(text):
    return max(map(len, text.split()), default=0)


class Paper:
    """The pages so far. Each method adds something below what is there."""

    def __init__(self):
        self._file = io.BytesIO()
        self._pdf = PdfPages(self._file, metadata={"CreationDate": None})
        self._page = None
        self._top = HEIGHT  # of the free place, from above

    def heading(self, text, size=HEADING):
        self._need(KEPT_TOGETHER)
        self._top += size * LINE
        self._write_lines(text, size, weight="bold")
        self._top += size * LINE / 3

    def paragraph(self, text, **style):
        self._write_lines(text, TEXT, **style)
        self._top += TEXT * LINE / 2

    def items(self, texts):
        for text in texts:
            self.paragraph(f"• {text}")

    def figure(self, title, drawing):
        """Adds both on one page; `drawing`: see figures.py."""
        canvas = draw(drawing)
        canvas.set_dpi(DOTS)
        agg = FigureCanvasAgg(canvas)
        agg.draw()
        width, height = canvas.get_size_inches()
        height *= self._width / width
        self._need(height + KEPT_TOGETHER)
        self.heading(title)
        axes = self._page.add_axes([MARGIN / WIDTH, 1 - (self._top + height) / HEIGHT,
                                    self._width / WIDTH, height / HEIGHT])
        axes.imshow(agg.buffer_rgba(), aspect="auto")
        axes.set_axis_off()
        self._top += height

    def table(self, titles, rows, right):
        """`rows`: of texts; `right`: whether each column goes to the right, as numbers do."""
        letters = [max(LEAST_CELL, BOLD * len(title), *map(len, column)) + GAP
                   for title, *column in zip(titles, *rows)]
        least = [max(LEAST_CELL, BOLD * longest_word(title)) + GAP for title in titles]
        widths = shared(letters, least, self._width / (CELL * TABLE_LETTER))
        head = self._wrapped(titles, [(width - GAP) / BOLD + GAP for width in widths])
        self._need(2 * self._height(head))
        self._write_row(head, widths, right, weight="bold")
        for row in rows:
            cells = self._wrapped(row, widths)
            if self._need(self._height(cells)):
                self._write_row(head, widths, right, weight="bold")
            self._write_row(cells, widths, right)

    def done(self):
        """Returns the file's bytes."""
        self._finish_page()
        with matplotlib.rc_context(FONTS):
            self._pdf.close()
        return self._file.getvalue()

    @property
    def _width(self):
        return WIDTH - 2 * MARGIN

    def _need(self, height):
        """Begins a page if less is left on this one, and returns whether it did."""
        if self._top + height <= HEIGHT - MARGIN:
            return False
        self._finish_page()
        self._page = Figure(figsize=(WIDTH, HEIGHT))
        self._top = MARGIN
        return True

    def _finish_page(self):
        if self._page is not None:
            with matplotlib.rc_context(FONTS):
                self._pdf.savefig(self._page)

    def _write(self, text, size, x=0.0, **style):
        """Writes a line at the free place, `x` from the margin."""
        self._page.text((MARGIN + x) / WIDTH, 1 - self._top / HEIGHT, plain(text), fontsize=size,
                        family="DejaVu Sans", va="top", **style)

    def _write_lines(self, text, size, **style):
        letter = LETTER * (BOLD if "weight" in style else 1)
        for line in textwrap.wrap(text, int(self._width / (size * letter))):
            self._need(size * LINE)
            self._write(line, size, **style)
            self._top += size * LINE

    def _wrapped(self, texts, widths):
        return [textwrap.wrap(text, int(width - GAP)) for text, width in zip(texts, widths)]

    def _height(self, cells):
        return (max(1, *map(len, cells)) + 0.6) * CELL * LINE

    def _write_row(self, cells, widths, right, **style):
        """Writes the lines of each cell, and a rule below them."""
        top, x = self._top, 0.0
        for lines, width, is_right in zip(cells, widths, right):
            right_side = x + (width - GAP) * CELL * TABLE_LETTER
            side = {"x": right_side, "ha": "right"} if is_right else {"x": x}
            for number, line in enumerate(lines):
                self._top = top + number * CELL * LINE
                self._write(line, CELL, **side, **style)
            x += width * CELL * TABLE_LETTER
        self._top = top + self._height(cells)
        y = 1 - (self._top - 0.4 * CELL * LINE) / HEIGHT
        self._page.add_artist(Line2D([MARGIN / WIDTH, (MARGIN + x) / WIDTH], [y, y],
                                     color="#bbbbbb", linewidth=0.4))
