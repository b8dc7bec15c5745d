"""Markdown of the pages that the scripts here write."""

import os
import textwrap

import documented

WIDTH = 100


def number(value, digits=3):
    """"-" for a missing value: None, an empty text or NaN."""
    return "-" if value is None or value == "" or value != value else f"{value:.{digits}f}"


def sizes(row):
    return f"{row['m']} x {row['n']} x {row['k']}"


def table(header, lines, texts=1):
    """The first `texts` columns are aligned as texts, the others as numbers."""
    rule = "|".join("---" if i < texts else "---:" for i in range(len(header)))
    rows = (" | ".join(map(str, line)) for line in (header, *lines))
    first, *others = (f"| {row} |" for row in rows)
    return [first, f"|{rule}|", *others]


def listed(title, lines):
    """A titled list; empty if there are no lines."""
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
    """Adds the notice of documented.py if the page of that name is older than the code."""
    name = os.path.splitext(os.path.basename(path))[0]
    text = "\n".join(map(wrapped, text.splitlines()))
    with open(path, "w", encoding="utf-8") as file:
        file.write(documented.with_notice(name, text))
