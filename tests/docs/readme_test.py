"""The README shows what the commands really print.

Usage: readme_test.py ATTACCA [--update]. Runs every `$ attacca ...` line of the README's console
blocks from the repository's root and compares what follows it; numbers in lines that begin with
"time:" or "check" are not compared, as they differ from machine to machine. --update rewrites them.
"""
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
NUMBER = re.compile(r"\d+(\.\d+)?(e[+-]\d+)?")


def run(command):
    words = shlex.split(command)
    result = subprocess.run([sys.argv[1], *words[1:]], capture_output=True, text=True, cwd=ROOT)
    return result.stdout + result.stderr


def masked(line):
    return NUMBER.sub("#", line) if re.match(r"time:|check ", line) else line


def examples(block):
    """(command, shown output) of every `$ attacca` line of a console block."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output.splitlines()


def main():
    text = README.read_text()
    count = failures = 0

    def check(block):
        nonlocal count, failures
        lines = []
        for command, shown in examples(block.group(1)):
            count += 1
            printed = run(command).splitlines()
            lines += [f"$ {command}", *printed]
            if [masked(line) for line in printed] != [masked(line) for line in shown]:
                failures += 1
                print(f"$ {command}", "README:", *shown, "printed:", *printed, sep="\n")
        return "```console\n" + "\n".join(lines) + "\n```"

    updated = BLOCK.sub(check, text)
    if "--update" in sys.argv:
        README.write_text(updated)
        return 0
    print(f"{count} commands, {failures} differ")
    return 1 if failures or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
