"""Markdown of the pages that the scripts here write."""

import os
import textwrap

import documented

WIDTH = 100


def number(value, digits=3):
    """"-" for what is missing: None, nothing, NaN."""
    return "-" if value is None or value == "" or value != value else f"{value:.{digits}f}"


def sizes(row):
    return f"{row['m']} x {row['n']} x {row['k']}"


def table(header, lines, texts=1):
    """Its first columns are texts, the others numbers."""
    rule = "|".join("---" if i < texts else "---:" for i in range(len(header)))
    rows = (" | ".join(map(str, line)) for line in (header, *lines))
    first, *others = (f"| {row} |" for row in rows)
    return [first, f"|{rule}|", *others]


def listed(title, lines):
    """Nothing where there are no lines."""
    return [title, "", *(f"- {line}" for line in lines), ""] if lines else []


def paragraph(text):
    """On one line, as write() takes it."""
    return " ".join(text.split())


def wrapped(line):
    """The lines of a paragraph or of an item of a list; tables and titles stay one line."""
    if line.startswith(("|", "#", "!", ">")) or len(line) <= WIDTH:
        return line
    return textwrap.fill(line, WIDTH, subsequent_indent="  " * line.startswith("- "),
                         break_long_words=False, break_on_hyphens=False)


def write(path, text):
    """With the notice that a page of that name has where its subject has changed since."""
    name = os.path.splitext(os.path.basename(path))[0]
    text = "\n".join(map(wrapped, text.splitlines()))
    with open(path, "w", encoding="utf-8") as file:
        file.write(documented.with_notice(name, text))
