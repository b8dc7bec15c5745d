"""The one exception that bad input raises."""


class Error(ValueError):
    """Bad input: what is wrong, where, and how to mend it.

    Attributes:
        what: What is wrong.
        where: The place: an argument, a tensor's name, ``<text>:line:column``. May be empty.
        mend: What to do about it. May be empty.
    """

    what: str
    where: str
    mend: str

    def __init__(self, what: str, where: str = "", mend: str = ""):
        super().__init__(what, where, mend)
        self.what, self.where, self.mend = what, where, mend

    def __str__(self) -> str:
        text = self.what
        if self.where:
            text += f", at {self.where}"
        if self.mend:
            text += f": {self.mend}"
        return text


class MissingModule(Error, ImportError):
    """A package that a part of Attacca needs is not installed. Caught as ``ImportError`` too."""
