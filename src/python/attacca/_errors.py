"""The exception that bad input raises, and its kinds that are exceptions of Python's, too."""


class Error(ValueError):
    """Bad input: what is wrong, where, and how to fix it. A kind of ``ValueError``.

    Attributes:
        what: What is wrong.
        where: The place: an argument, a tensor's name, ``model.attacca:3:7`` for a line and column
            of a file, ``<text>:3:7`` for those of a text. May be empty.
        fix: What to do about it. May be empty.
    """

    what: str
    where: str
    fix: str

    def __init__(self, what: str, where: str = "", fix: str = ""):
        super().__init__(what, where, fix)
        self.what, self.where, self.fix = what, where, fix

    def __str__(self) -> str:
        text = self.what
        if self.where:
            text += f", at {self.where}"
        if self.fix:
            text += f": {self.fix}"
        return text


class MissingModule(Error, ImportError):
    """A Python package that a part of Attacca needs is not installed. Also an ``ImportError``."""


class MissingAttribute(Error, AttributeError):
    """An attribute that an object does not have: ``hasattr`` is false of it."""
