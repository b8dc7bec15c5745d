"""Every function of src/gpu/driver/driver_functions.def is called, and the stand-in for the driver
has no others. A driver that lacks a function of the table is refused."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = (ROOT / "src/gpu/driver/driver_functions.def").read_text()
ROWS = re.findall(r'^FUNCTION\((\w+), "(\w+)"', TABLE, re.MULTILINE)
# driver.f, driver->f, &Driver::f, and within Driver f.function(...)
USE = r"(\.|->|&Driver::){0}\b|\b{0}\.function\("


class DriverFunctions(unittest.TestCase):
    def test_every_row_is_read(self):
        self.assertEqual(len(ROWS), TABLE.count("\nFUNCTION("))

    def test_every_function_is_called(self):
        text = "\n".join(path.read_text() for ending in (".cpp", ".hpp")
                         for path in sorted((ROOT / "src").rglob(f"*{ending}")))
        unused = [member for member, _ in ROWS if not re.search(USE.format(member), text)]
        self.assertEqual(unused, [])

    def test_the_stand_in_has_the_same(self):
        stand_in = (ROOT / "tests/gpu/fake_cuda.cpp").read_text()
        defined = re.findall(r"^int (cu\w+)\(", stand_in, re.MULTILINE)
        self.assertEqual(sorted(defined), sorted(symbol for _, symbol in ROWS))


if __name__ == "__main__":
    unittest.main()
