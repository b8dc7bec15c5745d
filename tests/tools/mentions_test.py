"""Source files that comments and pages name exist, and so do C++ names with a namespace of the
project, such as ir::Graph."""
import collections
import io
import pathlib
import re
import sys
import tokenize
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import check_lines

# Of another project, made by the build, or an example's.
OTHERS = {"llama.cpp", "registry.cpp", "file.cpp", "file.cu", "/home/me/kernel.cu"}
FILE = re.compile(r"(?<![\w.*/{}<>-])[\w./-]*\w\.(?:def|hpp|cpp|cuh?|py)\b(?![\w(*]|\.\w)")
PLACEHOLDER = re.compile(r"(?:.*/)?(?:NAME|FILE)\b|.*/NAME_")
QUALIFIED = re.compile(r"(?<![\w:])(?:attacca::)?(\w+)::(\w+)")
NAMESPACE = re.compile(r"^namespace attacca::(\w+)", re.MULTILINE)
CPP = {".cpp", ".cu", ".cuh", ".def", ".h", ".hpp"}
STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


def python_texts(text):
    """(line number, text) of comments and docstrings."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        docstring = token.type == tokenize.STRING and token.line.lstrip().startswith(
            ('"""', 'r"""'))
        if token.type == tokenize.COMMENT or docstring:
            yield token.start[0], token.string


def cpp_texts(text):
    for found in STRING_OR_COMMENT.finditer(text):
        if found[0][0] != '"':
            yield text.count("\n", 0, found.start()) + 1, found[0]


def lines(path, text):
    """(line number, line) of a page, or of the comments of a source."""
    if path.suffix == ".md":
        parts = [(1, text)]
    elif path.suffix in CPP:
        parts = cpp_texts(text)
    elif path.suffix == ".py":
        parts = python_texts(text)
    elif path.suffix in (".cmake", ".sh") or path.name in ("CMakeLists.txt", "Makefile"):
        parts = ((number, line.partition("#")[2])
                 for number, line in enumerate(text.split("\n"), 1))
    else:
        parts = []
    for first, part in parts:
        yield from enumerate(part.split("\n"), first)


class Project:
    """A project's texts by their paths."""

    def __init__(self, texts):
        self.texts = texts
        self.names = collections.defaultdict(list)  # the paths of files of one name
        self.code = collections.defaultdict(list)  # of a namespace of src or include, no comments
        for path, text in texts.items():
            self.names[path.name].append(f"/{path}")
            if path.suffix in CPP and path.parts[0] in ("src", "include"):
                code = STRING_OR_COMMENT.sub(
                    lambda found: found[0] if found[0][0] == '"' else "", text)
                for name in set(NAMESPACE.findall(text)):
                    self.code[name].append(code)

    def has_file(self, name):
        if name in OTHERS or PLACEHOLDER.match(name):
            return True
        return any(path.endswith("/" + name.lstrip("./"))
                   for path in self.names[name.rpartition("/")[2]])

    def has_name(self, namespace, name):
        """Whether code of the namespace has the name, not as one of another namespace."""
        return any(re.search(rf"(?<!::)\b{name}\b", code) for code in self.code[namespace])

    def missing(self):
        for path, text in self.texts.items():
            for number, line in lines(path, text):
                for found in FILE.finditer(line):
                    if not self.has_file(found[0]):
                        yield f"{path}:{number}: no file {found[0]}"
                if "namespace" in line:  # the end of one
                    continue
                for found in QUALIFIED.finditer(line):
                    if found[1] in self.code and not self.has_name(*found.groups()):
                        yield f"{path}:{number}: no name {found[0]}"


def texts_of(root):
    for path in check_lines.files(root):
        try:
            yield path, (root / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:  # a binary file
            continue


class Mentions(unittest.TestCase):
    def missing(self, **mentions):
        """What is missing in a project of two files and others with these texts."""
        made = {"src/fold/join.cpp": "namespace attacca::fold {\nint joined = ir::size;\n}",
                "src/ir/ops.def": "namespace attacca::ir {\nint size;  // gone\n}"}
        made.update((name.replace("_", "."), text) for name, text in mentions.items())
        return list(Project({pathlib.PurePath(name): text
                             for name, text in made.items()}).missing())

    def test_all_of_this_project_exist(self):
        self.assertEqual(list(Project(dict(texts_of(ROOT))).missing()), [])

    def test_files(self):
        self.assertEqual(self.missing(
            a_md="`src/fold/join.cpp`, ops.def, ir/ops.def, src/NAME/x.hpp"), [])
        self.assertEqual(self.missing(a_md="in\nfold/ops.def, `src/join.hpp`"),
                         ["a.md:2: no file fold/ops.def", "a.md:2: no file src/join.hpp"])
        self.assertEqual(self.missing(a_cpp='#include "gone.hpp"\nint x;  // as gone.cpp'),
                         ["a.cpp:2: no file gone.cpp"])
        self.assertEqual(self.missing(a_py='"""As\ngone.py."""\nx = "gone.py"  # gone.def'),
                         ["a.py:2: no file gone.py", "a.py:3: no file gone.def"])

    def test_names(self):
        self.assertEqual(self.missing(a_md="`fold::joined`, attacca::ir::size, std::gone"), [])
        self.assertEqual(self.missing(a_md="`fold::size` and `attacca::ir::gone(x)`"),
                         ["a.md:1: no name fold::size", "a.md:1: no name attacca::ir::gone"])


if __name__ == "__main__":
    unittest.main()
