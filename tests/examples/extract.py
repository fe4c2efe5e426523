"""Writes the source files that docs/extending.md shows, for compiling them.

    extract.py docs/extending.md FOLDER

An example is a block of C++ whose last file name before it, in backquotes, ends in .cc.
"""

import pathlib
import re
import sys

BLOCK = re.compile(r"```cpp\n(.*?)```", re.DOTALL)
FILE = re.compile(r"`([\w/.]+\.(?:cc|inc))`")


def examples(text):
    end = 0
    for block in BLOCK.finditer(text):
        names = FILE.findall(text[end:block.start()])
        if names and names[-1].endswith(".cc"):
            yield names[-1], block[1]
        end = block.end()


def main():
    page, folder = map(pathlib.Path, sys.argv[1:])
    for name, code in examples(page.read_text()):
        file = folder / pathlib.Path(name).name
        file.write_text(code)


if __name__ == "__main__":
    main()
