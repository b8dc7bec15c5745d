"""The documents show what the commands really print, and their links lead somewhere.

Usage: readme_test.py ATTACCA [--update]. Runs every `$ attacca ...` line of the console blocks from
the repository's root and compares its output with the lines below it. Numbers in lines that begin
with "time:" or "check" are not compared: they differ from machine to machine. --update rewrites the
documents.
"""
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "docs/command-line.md"]
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
NUMBER = re.compile(r"\d+(\.\d+)?(e[+-]\d+)?")
PROGRESS = re.compile(r".* \.\.\. \d+ s\n")  # printed by what takes longer than half a minute
PATH = re.compile(r"`((?:src|tests|tools|bench|docs|include|examples|cmake)/[\w./-]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def run(command):
    words = shlex.split(command)
    result = subprocess.run([sys.argv[1], *words[1:]], capture_output=True, text=True, cwd=ROOT)
    return result.stdout + PROGRESS.sub("", result.stderr)


def masked(line):
    return NUMBER.sub("#", line) if re.match(r"time:|check ", line) else line


def examples(block):
    """(command, shown output) of every `$ attacca` line of a console block."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output.splitlines()


class Checker:
    """Runs the commands of the blocks of one document after the other."""

    def __init__(self):
        self.count = self.failures = 0

    def block(self, match):
        """The block as it should be."""
        lines = []
        for command, shown in examples(match.group(1)):
            self.count += 1
            printed = run(command).splitlines()
            lines += [f"$ {command}", *printed]
            if [masked(line) for line in printed] != [masked(line) for line in shown]:
                self.failures += 1
                print(f"$ {command}", "document:", *shown, "printed:", *printed, sep="\n")
        return "```console\n" + "\n".join(lines) + "\n```"


def broken_links():
    """"document: target" of every relative link, and every path of the repository, that leads to no
    file. A path with capital letters, such as `src/import/NAME.cpp`, is a placeholder."""
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/**/*.md")]:
        text = page.read_text()
        targets = [page.parent / target for target in
                   LINK.findall(re.sub(r"`[^`]*`|```.*?```", "", text, flags=re.DOTALL))
                   if "://" not in target]
        targets += [ROOT / path for path in PATH.findall(text) if path.islower()]
        yield from (f"{page.relative_to(ROOT)}: {target}" for target in targets
                    if not target.exists())


def main():
    checker = Checker()
    for document in DOCUMENTS:
        updated = BLOCK.sub(checker.block, document.read_text())
        if "--update" in sys.argv:
            document.write_text(updated)
    broken = [*broken_links()]
    print(f"{checker.count} commands, {checker.failures} differ; broken links:",
          *broken or ["none"],
          sep="\n  ")
    if "--update" in sys.argv:
        return 0
    return 1 if checker.failures or checker.count == 0 or broken else 0


if __name__ == "__main__":
    sys.exit(main())
