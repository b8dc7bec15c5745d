#!/usr/bin/env python3
"""How far the GPU's power limits grouped products that both multiply and read much:

    bench/gpu/power.py --attacca build/src/cli/attacca \\
        --library build/src/api/libattacca.so --out power.csv --minutes 3

Each row is one kernel, launched for `--seconds` without pauses: its time, and the power, the clock
of the multiprocessors and the share of samples in which power held the clock back, as nvidia-smi
reports them in the second half of that time. The first rows are the yardsticks. `wait` is a kernel
that does nothing. `read` copies 8 GiB to shared memory by bulk copies and computes nothing from
them. `multiply` is a bf16 product of 8192 x 8192 x 8192 by PyTorch. All data is N(0, 1).

`limit_us` is the larger of the two times that memory (4.3 TB/s) and tensor cores (700 TFLOP/s)
allow. `power_us` is what it would take with the yardsticks' energy for each operation and each byte
beyond that of waiting, at the power at which `multiply` is held:

    time of the operations in `multiply`
        + time of the bytes in `read` * (watts of read - wait) / (watts of multiply - wait)

That is no bound: at a lower clock the voltage is lower, too, and each operation costs less. It
says where power rather than a kernel is the limit: `held` near 1, `over_power` near 1 or below."""

import statistics
import subprocess
import sys
import time
from typing import NamedTuple

import torch

import csv_run
import grouped
import machine
import routed
import stopwatch
import tuned_plan

COLUMNS = ["kernel", "tokens", "routing", "us", "watts", "mhz", "held", "limit_us", "power_us",
           "over_limit", "over_power", "note"]
CASES = [(layer, "up", 4096, routing) for layer in ("deepseek-v3", "qwen3-30b-a3b", "mixtral-8x7b")
         for routing in grouped.ROUTINGS] + [("deepseek-v3", "down", 4096, "uniform")]
# nvidia-smi's clocks_event_reasons.active: the bit of the software's power cap.
POWER_CAP = 0x4
QUERY = "power.draw.instant,clocks.sm,clocks_event_reasons.active"
SAMPLE_MS = 20
PIECE = 8192  # bytes of a copy, as COPIES says
# Each block keeps four copies in flight.
COPIES = r"""
extern "C" __global__ void copies(const char* data, long long pieces) {
  __shared__ alignas(128) char buffer[4][8192];
  __shared__ alignas(8) unsigned long long full[4];
  if (threadIdx.x != 0) return;
  auto at = [](const void* p) { return (unsigned)__cvta_generic_to_shared(p); };
  for (int i = 0; i < 4; ++i)
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at(&full[i])));
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  long long next = blockIdx.x;
  auto copy = [&](int stage) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 8192;" ::"r"(at(&full[stage])));
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 8192, [%2];"
        ::"r"(at(buffer[stage])), "l"(data + next * 8192), "r"(at(&full[stage])) : "memory");
    next += gridDim.x;
  };
  for (int i = 0; i < 4 && next < pieces; ++i) copy(i);
  long long left = (pieces - blockIdx.x + gridDim.x - 1) / gridDim.x;
  for (long long i = 0; i < left; ++i) {
    int stage = i % 4, done = 0;
    while (!done)
      asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], %2;\n"
                   "selp.s32 %0, 1, 0, p;\n}"
                   : "=r"(done) : "r"(at(&full[stage])), "r"((int)(i / 4 & 1)) : "memory");
    if (next < pieces) copy(stage);
  }
}
"""


class Reading(NamedTuple):
    us: float
    watts: float
    mhz: float
    held: float  # the share of samples


def read(timed, seconds):
    """What a stopwatch.Timed takes and draws, launched for so many seconds."""
    sampler = subprocess.Popen(
        ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits",
         f"--loop-ms={SAMPLE_MS}"], stdout=subprocess.PIPE, text=True)
    times, begin = [], time.monotonic()
    while time.monotonic() - begin < seconds:
        times.append(timed.once())
    sampler.terminate()
    samples = [line.split(", ") for line in sampler.communicate()[0].splitlines()]
    samples = [each for each in samples[len(samples) // 2:] if len(each) == 3]
    return Reading(statistics.median(times[len(times) // 2:]),
                   statistics.mean(float(watts) for watts, _, _ in samples),
                   statistics.mean(float(mhz) for _, mhz, _ in samples),
                   statistics.mean(bool(int(reasons, 16) & POWER_CAP) for _, _, reasons in samples))


class Yardsticks:
    """What waiting, reading and multiplying alone draw."""
    PRODUCT = 8192
    BYTES = 8 << 30

    def __init__(self, seconds):
        self.seconds = seconds
        self.wait = read(stopwatch.Timed(lambda i: torch.cuda._sleep(1_000_000), 1), seconds)
        self.of_bytes = self.reading()
        self.of_product = self.multiplying()

    def reading(self):
        data = torch.randn(self.BYTES // 4, device="cuda").bfloat16().repeat(2)
        kernel = torch.cuda._compile_kernel(COPIES, "copies", compute_capability="90")
        blocks = 2 * torch.cuda.get_device_properties(0).multi_processor_count

        def launch(_):
            kernel((blocks, 1, 1), (32, 1, 1), (data, self.BYTES // PIECE))
        return read(stopwatch.Timed(launch, 1), self.seconds)

    def multiplying(self):
        x, w = (torch.randn(self.PRODUCT, self.PRODUCT, device="cuda").bfloat16()
                for _ in range(2))
        return read(stopwatch.Timed(lambda i: x @ w.t(), 1), self.seconds)

    def allowed(self, operations, read_bytes):
        """Microseconds that power allows for so many."""
        share = ((self.of_bytes.watts - self.wait.watts) /
                 (self.of_product.watts - self.wait.watts))
        return (operations / (2 * self.PRODUCT**3) * self.of_product.us +
                read_bytes / self.BYTES * self.of_bytes.us * share)

    def rows(self):
        return [{"kernel": name, **columns_of(reading)}
                for name, reading in (("wait", self.wait), ("read", self.of_bytes),
                                      ("multiply", self.of_product))]


def columns_of(reading):
    return {"us": f"{reading.us:.2f}", "watts": f"{reading.watts:.0f}",
            "mhz": f"{reading.mhz:.0f}", "held": f"{reading.held:.2f}"}


def measure(library, weights, yardsticks, case, options):
    work = grouped.Work(case, "nk", weights)
    plan = work.plan(library, options.limit)
    timed = stopwatch.Timed(plan.launches(work.sets(), work.outs), grouped.DRAWS)
    reading = read(timed, options.seconds)
    matrix = 2 * work.shape.n * work.shape.k
    limit = routed.limit(work.ends[0], work.shape, matrix, len(work.x))
    power = yardsticks.allowed(matrix * work.rows, routed.bytes_of(work.ends[0], work.shape, matrix,
                                                                   len(work.x)))
    return {**named(case), **columns_of(reading), "limit_us": f"{limit:.2f}",
            "power_us": f"{power:.2f}", "over_limit": f"{reading.us / limit:.2f}",
            "over_power": f"{reading.us / power:.2f}", "note": plan.columns()["kernel"]}


def named(case):
    """The columns that name a case."""
    layer, part, tokens, routing = case
    return {"kernel": f"{layer} {part}", "tokens": tokens, "routing": routing}


def main():
    parser = tuned_plan.option_parser(__doc__, 4)
    parser.add_argument("--seconds", type=float, default=3, help="of launches of each kernel")
    arguments = parser.parse_args()
    torch.manual_seed(20261129)
    library = tuned_plan.open_library(arguments.library, arguments.attacca)
    yardsticks, weights = Yardsticks(arguments.seconds), grouped.Weights()
    own = yardsticks.rows()
    rows = csv_run.run(own + CASES, lambda case: case if isinstance(case, dict) else
                       measure(library, weights, yardsticks, case, arguments),
                       COLUMNS, arguments.out, arguments.minutes, machine.facts(),
                       lambda case, reason: {**named(case), "note": reason})
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
