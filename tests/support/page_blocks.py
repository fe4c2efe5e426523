"""The fenced blocks of a page of docs/, and the changes to files that it shows."""
import re

BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


def blocks(text):
    """(language, text) of all fenced blocks, in the page's order."""
    return [(block[1], block[2]) for block in BLOCK.finditer(text)]


def changed(text, change):
    """Applies the diff `change` to `text`. The old lines must occur exactly once; without old lines,
    the new ones go to the end."""
    lines = change.splitlines(keepends=True)
    old = "".join(line[1:] for line in lines if line[0] != "+")
    new = "".join(line[1:] for line in lines if line[0] != "-")
    if not old:
        return text + new
    places = [found.start() for found in re.finditer("^" + re.escape(old), text, re.MULTILINE)]
    if len(places) != 1:
        raise AssertionError(f"got {len(places)} places with these lines, expected one:\n{old}")
    return text[:places[0]] + new + text[places[0] + len(old):]
