"""Where and when something was measured, for the top of a CSV."""

import datetime
import subprocess


def of_driver(what):
    """What nvidia-smi says of the first GPU."""
    try:
        asked = subprocess.run(["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader"],
                               capture_output=True, text=True, check=False)
        return asked.stdout.split("\n")[0].strip() or "unknown"
    except OSError:
        return "unknown"


def driver_version():
    return of_driver("driver_version")


def device_name():
    return of_driver("name")


def today():
    return datetime.date.today().isoformat()


def facts():
    """Needs PyTorch."""
    import torch
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "a CPU"
    return {"device": device, "torch": torch.__version__, "driver": driver_version(),
            "date": today()}


def described(facts):
    """"NVIDIA H200, driver 580, PyTorch 2.11; 2026-11-22": what of the facts is known."""
    parts = [("", "device"), ("driver ", "driver"), ("PyTorch ", "torch"), ("Triton ", "triton"),
             ("", "tools")]
    known = ", ".join(name + facts[key] for name, key in parts if facts.get(key))
    return f"{known or '?'}; {facts.get('date', '?')}"
