"""The one exception that bad input raises."""


class Error(ValueError):
    """Bad input: what is wrong, where, and how to fix it.

    Attributes:
        what: What is wrong.
        where: The place: an argument, a tensor's name, ``<text>:line:column``. May be empty.
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
    """A package that a part of Attacca needs is not installed. Caught as ``ImportError`` too."""
