"""Folders of C++ sources include each other in one direction only."""
import pathlib
import posixpath
import re
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
ROOTS = ("common", "coordinator", "worker", "library", "programs", "bench", "cli")
SUFFIXES = (".cc", ".h", ".inc")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def sources():
    """{path: text} of all files of C++."""
    return {path.relative_to(SOURCE).as_posix(): path.read_text()
            for root in ROOTS for path in sorted((SOURCE / root).rglob("*"))
            if path.suffix in SUFFIXES}


def uses(texts):
    """{folder: {folder it includes from: "FILE includes FILE", the first}}"""
    folders = {}
    for path, text in texts.items():
        folder = folders.setdefault(posixpath.dirname(path), {})
        for included in INCLUDE.findall(text):
            other = posixpath.dirname(included)
            if included in texts and other != posixpath.dirname(path):
                folder.setdefault(other, f"{path} includes {included}")
    return folders


def cycle(folders):
    """The includes of a shortest way from a folder back to itself; empty if there is none."""
    shortest = []
    for start in folders:
        ways, seen = [(start, [])], set()
        while ways:
            folder, way = ways.pop(0)
            for other, include in folders.get(folder, {}).items():
                if other == start and (not shortest or len(way) + 1 < len(shortest)):
                    shortest = way + [include]
                if other not in seen:
                    seen.add(other)
                    ways.append((other, way + [include]))
    return shortest


class FoldersTest(unittest.TestCase):
    def test_no_folder_includes_itself_by_way_of_others(self):
        folders = uses(sources())
        self.assertIn("common/base", folders["common/wire"])  # it does read them
        found = cycle(folders)
        self.assertFalse(found, "a cycle of folders:\n  " + "\n  ".join(found))

    def test_cycle_is_named_by_its_includes(self):
        texts = {"a/x.cc": '#include "b/y.h"\n', "b/y.h": '# include "c/table.inc"\n',
                 "c/table.inc": "", "c/z.cc": '#include "a/x.h"\n', "a/x.h": "#include <b/y.h>\n"}
        self.assertEqual(cycle(uses(texts)), ["a/x.cc includes b/y.h", "b/y.h includes c/table.inc",
                                              "c/z.cc includes a/x.h"])

    def test_folders_above_each_other_are_no_cycle(self):
        texts = {"a/x.cc": '#include "a/x.h"\n#include "b/y.h"\n', "a/x.h": "", "b/y.h": ""}
        self.assertEqual(cycle(uses(texts)), [])


if __name__ == "__main__":
    unittest.main()
