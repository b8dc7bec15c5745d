"""The machine that a page about the CPU was measured on."""
import platform


def name():
    with open("/proc/cpuinfo") as file:
        return next((line.partition(":")[2].strip() for line in file
                     if line.startswith("model name")), platform.machine())
