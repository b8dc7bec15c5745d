"""What the command line decides for a GPU, on machines without one: devices by name, and a stand-in
for the driver that computes nothing.

Usage: gpu_test.py ATTACCA FAKE_CUDA [unittest arguments]. ATTACCA_TEMPLATE_DIR holds at least the
representative few templates (docs/templates.md).
"""
import contextlib
import json
import os
import pathlib
import re
import sqlite3
import statistics
import subprocess
import sys
import time
import unittest

FAKE_CUDA = sys.argv.pop(2)
from cli_test import ATTACCA, EXAMPLES, Cli, attacca

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench/gpu"
sys.path.insert(0, str(BENCH))

SMALL = "mma_tn_128x128x32_f2_d16"  # no tensor map: the stand-in encodes none
# Where rows are no multiple of 16 bytes: whatever the model prefers, nothing else can compute it.
ANY_STRIDES = r"(unfused\b|mma_xx_)[^(]*"
BLOCK = """graph block(x: bf16[M, 64], w: bf16[64, 64], b: bf16[64], v: bf16[64, 128]) {
  h = silu(x @ transpose(w) + b)
  return h @ v
}
"""


GROUPED = """graph experts(x: bf16[R, 2048], w: bf16[128, 2048, 1536], offsets: s32[128]) {
  gate, up = split(grouped_matmul(x, w, offsets), 2)
  return silu(gate) * up
}
"""
GATHERED = """graph experts(x: bf16[T, 2048], token: s64[R], w: bf16[128, 1536, 2048],
              offsets: s32[128]) {
  return silu(grouped_matmul(gather(x, token), transpose(w), offsets))
}
"""
MXFP4 = """graph experts(x: bf16[R, 2880], w: u8[32, 5760, 1440], scales: u8[32, 5760, 90],
              offsets: s32[32]) {
  return silu(grouped_matmul(x, transpose(mxfp4(w, scales)), offsets))
}
"""
DECODED = """graph experts(x: bf16[R, 2048], w: u8[64, 3072, 1024], scales: bf16[64, 3072, 64],
              zeros: u8[64, 3072, 64], offsets: s32[64]) {
  return silu(grouped_matmul(x, transpose(decode(w, scales, zeros)), offsets))
}
"""
SCALED_GROUPS = """graph experts(x: f8e4m3[R, 2048], w: f8e4m3[128, 1536, 2048], offsets: s32[128],
              sx: f32[R], sw: f32[128, 1536]) {
  y = grouped_matmul(x, transpose(w), offsets, out=f32, fast=FAST) * reshape(sx, [R, 1])
  return relu(cast(y * gather(sw, group_ids(offsets, [R])), bf16, compute=f32))
}
"""
SCALE = """extern "C" __global__ void scale(const float* x, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] MARK= x[i] * 2;
}
"""


class Explain(Cli):
    def ranking(self, *args):
        code, out, err = attacca("explain", self.write(BLOCK), "--device", "cuda", "--as", "h200",
                                 *args,
                                 "--json")
        self.assertEqual((code, err), (0, ""))
        return json.loads(out)["candidates"]

    def test_ranks_and_excludes(self):
        code, out, err = attacca("explain", self.write(BLOCK), "--device", "cuda", "--as", "h200",
                                 "--dim", "M=16")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("dimensions: M=16\n", out)
        self.assertRegex(
            out, r"region 1 on NVIDIA H200: \d+ of \d+ templates can compute it\n"
                 r"  unfused, expected \d+\.\d\d us\n    1\. \S+, expected \d+\.\d\d us\n")
        self.assertRegex(out, r"\n  not mma_tt_64x64x64_f2_d16: .*\bB\b.*\balong n\b.*\b64\n")

    def test_all_are_ranked_by_time_or_excluded(self):
        regions = self.ranking("--dim", "M=16")
        self.assertEqual([r["region"] for r in regions], [1, 2])
        self.assertEqual(regions[0]["dims"], {"M": 16})
        ranked, excluded = ([{each["template"] for each in region[kind]} for region in regions]
                            for kind in ("ranked", "excluded"))
        # Weights as (N, K), then as (K, N).
        for name, region in (("cutlass_tn_64x16x128_1x1_pingpong_swap_f1", 0),
                             ("cutlass_tn_128x128x64_2x1_pingpong_f1", 0),
                             ("mma_tn_128x128x32_f2_d16", 0), ("mma_tt_64x64x64_f2_d16", 1)):
            self.assertIn(name, ranked[region])
            self.assertIn(name, excluded[1 - region])
        for region in regions:
            times = [each["expected_us"] for each in region["ranked"]]
            self.assertEqual(times, sorted(times))

    def test_batch_invariant_candidates_are_the_same_for_every_m(self):
        def ranking(rows):
            regions = self.ranking("--batch-invariant", "--dim", f"M={rows}")
            return [({candidate["template"] for candidate in each["ranked"]},
                     {candidate["template"]: candidate["reason"] for candidate in each["excluded"]})
                    for each in regions]
        first = ranking(1)
        for rows in (2, 16, 17, 300, 4097, 8192):
            self.assertEqual(ranking(rows), first)
        reasons = first[0][1]
        self.assertRegex(reasons["unfused"], "batch_invariant: cuBLASLt")
        self.assertRegex(reasons["cutlass_tn_128x128x64_2x1_streamk_f1"],
                         "batch_invariant: .* depends on M")
        self.assertNotEqual(self.ranking("--dim", "M=1")[0]["ranked"][0]["template"],
                            self.ranking("--dim", "M=8192")[0]["ranked"][0]["template"])

    def test_products_of_eight_bit_floats_are_not_rounded(self):
        code, source, err = attacca("bench", "whole", "--template", "mma_e4m3_xx_64x64x64_f2_d16",
                                    "--dtype",
                                    "f8e4m3", "--mode", "eager", "--epilogue",
                                    "acc * col(sa) * row(sb)", "--source")
        self.assertEqual((code, err), (0, ""))
        element = source[
            source.index("attacca_outputs attacca_element("):source.index("attacca_hole(")]
        self.assertRegex(element, r"\(float acc, float col0, float row0\) \{\n"
                                  r"  const float t0 = __fmul_rn\(acc, col0\);\n"
                                  r"  const float t1 = __fmul_rn\(t0, row0\);\n"
                                  r"  const float t2 = attacca_round_bf16\(t1\);\n"
                                  r"  attacca_outputs")

    def test_groups_of_rows_are_multiplied_by_one_kernel(self):
        def explained(device):
            code, out, err = attacca("explain", self.write(GROUPED), "--device", "cuda", "--as",
                                     device, "--dim", "R=64", "--json")
            self.assertEqual((code, err), (0, ""))
            return json.loads(out)

        whole = explained("h200")
        self.assertEqual(len(whole["regions"]), 1)
        self.assertEqual([each["template"] for each in whole["candidates"][0]["ranked"]],
                         ["grouped_tt_16x64_1x1_swap_gate_f2_d16"])
        # Of the kernels of other devices, those of a gate are not among the built ones.
        for device in ("a100", "b200"):
            whole = explained(device)
            self.assertEqual(len(whole["regions"]), 1, device)
            self.assertEqual(whole["candidates"][0]["ranked"], [])

    def test_rows_by_an_index(self):
        dims = ("--device", "cuda", "--as", "h200", "--dim", "T=4096", "--dim", "R=32768")
        graph = self.write(GATHERED)
        code, out, err = attacca("explain", graph, *dims, "--json")
        self.assertEqual((code, err), (0, ""))
        whole = json.loads(out)
        self.assertEqual(len(whole["regions"]), 1)
        ranked = {each["template"]: each["gathers_before"]
                  for each in whole["candidates"][0]["ranked"]}
        self.assertEqual(ranked, {"grouped_tn_128x128_1x1_pingpong_direct_gather_f1_d16": False,
                                  "grouped_tn_128x128_1x1_pingpong_direct_f1_d16": True,
                                  "grouped_tn_16x64_1x1_swap_f1_d16": True})
        code, out, err = attacca("explain", graph, *dims)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("= x[token]:bf16 @ w^T:bf16, R x 1536 x 2048", out)
        self.assertRegex(out, r"1\. grouped_tn_128x128_1x1_pingpong_direct_gather_f1_d16, expected")
        self.assertRegex(out, r"2\. grouped_tn_128x128_1x1_pingpong_direct_f1_d16 after a gather,")
        self.assertRegex(out, r"  unfused after a gather, expected")
        for device in ("a100", "l40s", "b200", "rtx5090"):
            self.assertEqual(self.other_device(graph, device, dims[4:], "gathers_before"),
                             {"grouped_mma_tn_64x64x32_f2_d16": True})

    def other_device(self, graph, device, dims, key):
        """What is said of each candidate of the only region, on a device that is not Hopper's."""
        code, out, err = attacca("explain", graph, "--device", "cuda", "--as", device, *dims,
                                 "--json")
        self.assertEqual((code, err), (0, ""))
        whole = json.loads(out)
        self.assertEqual(len(whole["regions"]), 1)
        return {each["template"]: each[key] for each in whole["candidates"][0]["ranked"]}

    def test_weights_in_mxfp4(self):
        dims = ("--device", "cuda", "--as", "h200", "--dim", "R=64")
        graph = self.write(MXFP4)
        code, out, err = attacca("explain", graph, *dims, "--json")
        self.assertEqual((code, err), (0, ""))
        whole = json.loads(out)
        self.assertEqual(len(whole["regions"]), 1)
        ranked = {each["template"]: each["widens_before"]
                  for each in whole["candidates"][0]["ranked"]}
        self.assertIs(ranked["grouped_codes_mxfp4_tn_16x64_1x1_swap_f1_d16"], False)
        self.assertIs(ranked["grouped_tn_16x64_1x1_swap_f1_d16"], True)
        code, out, err = attacca("explain", graph, *dims)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("= x:bf16 @ w^T:bf16 of mxfp4 by scales, R x 5760 x 2880", out)
        self.assertRegex(out, r"1\. grouped_codes_mxfp4_\S+, expected")
        self.assertRegex(out, r"\. grouped_tn_16x64_1x1_swap_f1_d16 after widening, expected")
        self.assertRegex(out, r"  unfused after widening, expected")
        self.assertEqual(self.other_device(graph, "a100", dims[4:], "widens_before"),
                         {"grouped_mma_tn_64x64x32_f2_d16": True})

    def test_weights_of_4_bits(self):
        code, out, err = attacca("explain", self.write(DECODED), "--device", "cuda", "--as", "h200",
                                 "--dim", "R=64")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("= x:bf16 @ w^T:bf16 of u4 by scales, R x 3072 x 2048", out)
        self.assertRegex(out, r"1\. grouped_codes_i4_bf16_\S+, expected")
        self.assertRegex(out, r"\. grouped_tn_16x64_1x1_swap_f1_d16 after widening, expected")

    def test_scales_of_the_rows_group_are_read_by_the_epilogue(self):
        for fast in ("true", "false"):
            graph = self.write(SCALED_GROUPS.replace("FAST", fast))
            for device in ("h100", "h200", "b200"):
                with self.subTest(fast=fast, device=device):
                    code, out, err = attacca("explain", graph, "--device", "cuda", "--as", device,
                                             "--dim", "R=512", "--json")
                    self.assertEqual((code, err), (0, ""))
                    whole = json.loads(out)
                    kinds = [each["kind"] for each in whole["regions"]]
                    self.assertEqual(kinds, ["gemm"])
                    self.assertIn("row(sw by group)", [
                        each["text"] for each in whole["regions"][0]["epilogue"]["inputs"]])
                    ranked = [each["template"] for each in whole["candidates"][0]["ranked"]]
                    # Other devices have no kernel of groups of bytes.
                    self.assertEqual(ranked, [] if device == "b200" else
                                     ["grouped_e4m3_tn_16x64_1x1_swap_f2_d16"])

    def test_patterns(self):
        excluded = {each["template"]: each["reason"]
                    for each in self.ranking("--allow", "mma_*", "--deny", "*_xx_*")[0]["excluded"]}
        self.assertEqual(excluded["cutlass_tn_128x128x64_2x1_pingpong_f1"], "not allowed by mma_*")
        self.assertEqual(excluded["mma_xx_64x64x32_f2_d16"], "denied by the pattern *_xx_*")

    def test_every_known_device(self):
        graph = self.write(BLOCK)
        refused = attacca("explain", graph, "--device", "cuda", "--as", "?")[2]
        names = re.search(r"one of (.*)", refused)[1].split(", ")
        self.assertGreaterEqual(set(names),
                                {"a100", "l40s", "rtx4090", "h100", "h200", "b200", "rtx5090"})
        for name in names:
            code, out, err = attacca("explain", graph, "--device", "cuda", "--as", name, "--dim",
                                     "M=16", "--json")
            self.assertEqual((code, err), (0, ""), name)
            for region in json.loads(out)["candidates"]:
                ranked = {each["template"]: each["expected_us"] for each in region["ranked"]}
                excluded = {each["template"]: each["reason"] for each in region["excluded"]}
                mma = "mma_tn_128x128x32_f2_d16" if region[
                    "region"] == 1 else "mma_tt_64x64x64_f2_d16"
                self.assertIn(mma, ranked, name)
                self.assertTrue(all(0 < time < 1e3 for time in ranked.values()), (name, ranked))
                for template in ("cutlass_tn_128x128x64_2x1_pingpong_f1",
                                 "wgmma_tn_128x128x64_2x1_pingpong_direct_f1_d16"):
                    if name in ("h100", "h200"):
                        self.assertNotIn("compute capability", excluded.get(template, ""), name)
                    else:
                        self.assertRegex(excluded[template], r"compute capability 90\b.* \d+$")

    def test_an_architecture_has_the_figures_of_its_first_device(self):
        graph, found = self.write(BLOCK), {}
        for name in ("sm_90", "h100"):
            code, out, err = attacca("explain", graph, "--device", "cuda", "--as", name, "--dim",
                                     "M=16", "--json")
            self.assertEqual((code, err), (0, ""), name)
            found[name] = json.loads(out)["candidates"]
        self.assertEqual({region.pop("device") for region in found["sm_90"]}, {"sm_90"})
        self.assertEqual({region.pop("device") for region in found["h100"]},
                         {"NVIDIA H100 80GB HBM3"})
        self.assertEqual(found["sm_90"], found["h100"])

    def test_several_products(self):
        _, out, _ = attacca("explain", EXAMPLES / "llama3_8b_mlp.attacca", "--device", "cuda",
                            "--as",
                            "h200", "--dim", "M=64")
        self.assertRegex(out, r"\n  not mma_tn_128x128x32_f2_d16: .*\b2 accumulators\b.*\b1\b")

    def test_gates_in_every_layout_have_their_templates(self):
        two = ("v: bf16[64, 64], w: bf16[64, 64]", "p = x @ transpose(v); q = x @ transpose(w)")
        halves = ("w: bf16[128, 64]", "h = x @ transpose(w); p = h[:, :64]; q = h[:, 64:]")
        rows = ("w: bf16[128, 64]", "h = x @ transpose(w); p = h[:, ::2]; q = h[:, 1::2]")
        for weights, products in (two, halves, rows):
            graph = self.write(f"graph g(x: bf16[M, 64], {weights}) {{ {products}\n"
                               "return silu(p) * q }")
            code, out, err = attacca("explain", graph, "--device", "cuda", "--as", "h200", "--dim",
                                     "M=512", "--json")
            self.assertEqual((code, err), (0, ""))
            (region,) = json.loads(out)["candidates"]
            ranked = [each["template"] for each in region["ranked"]]
            self.assertIn("wgmma_tn_128x128x64_2x1_gate_f2_d16", ranked)
            self.assertTrue(all("_gate_" in name for name in ranked), ranked)
            excluded = {each["template"]: each["reason"] for each in region["excluded"]}
            self.assertRegex(excluded["mma_tn_128x128x32_f2_d16"],
                             r"\b2 accumulators\b.*\b1\b|some of the product's columns.*\ball\b")

    def own(self, mark):
        kernel = self.folder / "scale.cu"
        kernel.write_text(SCALE.replace("MARK", mark))
        return self.write(f"""graph own(x: f32[M, 8], b: f32[8]) {{
  k = kernel("{kernel}", x, f32[M, 8], s32(8*M), entry=scale, grid=[ceildiv(8*M, 128)], block=[128])
  return y = relu(k + b)
}}
""")

    def test_a_users_kernel_takes_its_tail_or_says_why_not(self):
        args = ["--device", "cuda", "--as", "h200", "--dim", "M=9"]
        code, out, err = attacca("explain", self.own(""), *args)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("region 1 on NVIDIA H200: its kernel stores what the tail gives\n", out)
        graph = self.own("+")
        code, out, err = attacca("explain", graph, *args)
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"region 1 on NVIDIA H200: its kernel, then the tail\n"
                              r"  not fused: .*\[read\] at scale\.cu:3\n")
        candidates = json.loads(attacca("explain", graph, *args, "--json")[1])["candidates"][0]
        self.assertEqual(candidates["ranked"], [])
        self.assertEqual([each["template"] for each in candidates["excluded"]], ["user_kernel"])
        run = attacca("run", graph, "--device", "cuda", "--dim", "M=9", "--json",
                      env={"ATTACCA_LIBCUDA": FAKE_CUDA,
                           "ATTACCA_CACHE_DIR": str(self.folder / "cache")})
        (decision,) = json.loads(run[1])["decisions"]
        self.assertEqual((decision["candidate"], decision["source"]), ("unfused", "analysis"))
        self.assertEqual(decision["excluded"], candidates["excluded"])

    def test_refusals(self):
        graph = self.write(BLOCK)
        self.refused("explain", graph, "--device", "cuda", "--as", "z80", what="no device z80",
                     fix="h200")
        self.refused("explain", graph, "--device", "cuda", "--as", "sm_9", what="no device sm_9",
                     fix="sm_90")
        self.refused("explain", graph, "--as", "h200", what="the device is the CPU",
                     fix="add --device cuda")
        self.refused("explain", graph, "--device", "cuda", "--as", "h200", "--dim", "Q=1",
                     what="dimension Q")
        self.refused("explain", graph, "--device", "cuda", what="CUDA driver", fix="--as",
                     env={"ATTACCA_LIBCUDA": "/nowhere/x"})


class Scripts(Cli):
    """The graphs that bench/gpu's scripts tune."""

    def regions(self, graph, *args):
        code, out, err = attacca("explain", self.write(graph), "--device", "cuda", "--as", "h200",
                                 "--json", *args)
        self.assertEqual((code, err), (0, ""), graph)
        return json.loads(out)["candidates"]

    def test_every_form_of_shipped_choices_is_one_region_that_templates_compute(self):
        import shipped
        for form in shipped.FORMS:
            item = next(each for each in shipped.items() if each.name.startswith(form.name + " N="))
            (region,) = self.regions(item.graph, "--dim", "M=16")
            if "8, " not in form.name:  # of these the few templates have none
                self.assertGreater(len(region["ranked"]), 0, form.name)

    def test_shipped_items_are_each_once(self):
        import shipped
        names = [item.name for item in shipped.items()]
        self.assertEqual(len(names), len(set(names)))
        self.assertIn("swiglu of packed halves N=14336 K=4096 M=16,256,1024,4096", names[0])

    def test_ten_problems_are_ten_regions(self):
        import alike
        self.assertEqual([each["region"] for each in self.regions(alike.graph())],
                         list(range(1, 11)))


class StandIn(Cli):
    """A driver that launches nothing and reports equal times for everything; no vendor library."""

    def setUp(self):
        super().setUp()
        self.env = {"ATTACCA_LIBCUDA": FAKE_CUDA, "ATTACCA_LIBCUBLASLT": "/nowhere/x",
                    "ATTACCA_CACHE_DIR": str(self.folder / "cache")}
        self.graph = self.write(BLOCK)

    def gpu(self, command, *args, code=0):
        got, out, err = attacca(command, self.graph, "--device", "cuda", *args, env=self.env)
        self.assertEqual(got, code, out + err)
        return out

    def test_tune_stores_what_run_takes(self):
        tuned = json.loads(self.gpu("tune", "--dim", "M=5,16", "--json"))
        self.assertEqual(tuned["device"], "Fake 0")
        rows = [(row["region"], row["dims"]["M"]) for row in tuned["tuned"]]
        self.assertEqual(rows, [(1, 5), (2, 5), (1, 16), (2, 16)])
        self.assertEqual(tuned["tuned"][0]["candidates"][0]["us"], tuned["tuned"][0]["us"])
        stored = json.loads(attacca("tune", "--show", "--json", env=self.env)[1])["choices"]
        self.assertEqual({row["shape"][:5] for row in stored}, {"m<=8 ", "m<=16"})
        report = json.loads(self.gpu("run", "--dim", "M=7", "--json"))  # in the bucket of 5
        self.assertEqual([each["source"] for each in report["decisions"]], ["database"] * 2)
        self.assertEqual([each["candidate"] for each in report["decisions"]],
                         [row["winner"] for row in tuned["tuned"][:2]])
        self.assertIn("fused_ms", report)

    def test_every_region_is_timed_between_events(self):
        self.gpu("tune", "--dim", "M=7")
        trace = self.folder / "trace.json"
        profile = json.loads(self.gpu("run", "--dim", "M=7", "--profile", "--trace", trace,
                                      "--json"))["profile"]
        self.assertEqual({each["region"]: each["ops"] for each in profile["regions"]},
                         {1: "matmul, add, silu", 2: "matmul"})
        self.assertGreater(min(each["us"] for each in profile["regions"]), 0)
        self.assertGreaterEqual(profile["rounds"], 10)
        events = json.loads(trace.read_text())["traceEvents"]
        self.assertIn("Fake 0", events[0]["args"]["name"])
        first, second = (each for each in events if each["ph"] == "X")
        self.assertEqual(first["ts"], 0)
        self.assertAlmostEqual(second["ts"], first["dur"], places=3)

    def test_the_timing_process_says_each_round(self):
        request = {"problem": {"graph": "graph g(x: bf16[16, 63], w: bf16[33, 63]) {\n"
                                        "  return relu(x @ transpose(w))\n}\n",
                               "mode": "fp32", "alignments": {}, "symbols": {}},
                   "candidates": ["mma_xx_64x64x32_f2_d16"], "rounds": 5, "device": 0,
                   "pace": "rested", "vendor": ""}
        done = subprocess.run([ATTACCA, "tune-worker"], input=json.dumps(request) + "\n",
                              capture_output=True, text=True, check=True,
                              env={**os.environ, **self.env})
        (timed,) = (line for line in map(json.loads, done.stdout.splitlines()) if "rounds" in line)
        self.assertEqual(len(timed["rounds"]), 5)
        self.assertEqual(timed["seconds"], statistics.median(timed["rounds"]))

    def change(self, sql):
        with contextlib.closing(sqlite3.connect(self.folder / "cache"
                                                / "tuned.sqlite")) as database, database:
            self.assertGreater(database.execute(sql).rowcount, 0)

    def odd(self, command, *args):
        """Decisions for a product that only templates without tensor maps take: the stand-in
        encodes no maps."""
        graph = self.folder / "odd.attacca"
        graph.write_text(
            "graph odd(x: bf16[M, 63], w: bf16[33, 63]) {\n  return relu(x @ transpose(w))\n}\n")
        code, out, err = attacca(command, graph, "--device", "cuda", "--dim", "M=16", "--json",
                                 *args, env=self.env)
        self.assertEqual(code, 0, out + err)
        return json.loads(out)

    def source(self, *args):
        (decision,) = self.odd("run", *args)["decisions"]
        return decision["source"]

    def test_what_was_measured_with_others_is_not_taken(self):
        self.odd("tune", "--budget", "1")
        self.assertEqual(self.source(), "database")
        self.change("UPDATE choices SET tools = replace(tools, 'driver 1', 'driver 9')")
        self.assertEqual(self.source(), "model")
        (tools,) = {row["tools"] for row in
                    json.loads(attacca("tune", "--show", "--json", env=self.env)[1])["choices"]}
        self.assertRegex(
            tools, r"^attacca \d+\.\d+\.\d+, templates [0-9a-f]{16}, cuBLASLt 0, driver 9\d+$")

    def test_an_algorithm_that_is_gone_is_measured_again(self):
        self.odd("tune", "--budget", "1")
        self.change("UPDATE choices SET candidate = 'unfused algorithm=99'")
        self.assertEqual(self.source(), "model")
        self.assertEqual(self.source("--tune"), "measured")
        self.assertEqual(self.source(), "database")

    def tuned(self, *args, code=0, cache="cache", **environment):
        """`attacca tune ARGS` with another cache folder, and what it prints."""
        env = {**self.env, "ATTACCA_CACHE_DIR": str(self.folder / cache), **environment}
        got, out, err = attacca("tune", *args, env=env)
        self.assertEqual(got, code, out + err)
        return out if code == 0 else err

    def test_choices_move_to_another_cache(self):
        self.gpu("tune", "--dim", "M=5,16", "--budget", "1")
        file = self.folder / "gpu.choices"
        self.assertEqual(self.tuned("--export", file),
                         f"exported 4 choices for Fake 0 to {file}\n")
        self.assertIn(": 4 added, 0 changed, 0 already there\n",
                      self.tuned("--import", file, cache="other"))
        self.assertEqual(json.loads(self.tuned("--import", file, "--json", cache="other")),
                         {"file": str(file), "device": "Fake 0", "added": 0, "changed": 0,
                          "known": 4, "kept": 0})
        self.assertEqual(json.loads(self.tuned("--import", file, "--holding", "--json",
                                               cache="other"))["left_out"], {})
        again = self.folder / "again.choices"
        self.tuned("--export", again, cache="other")
        self.assertEqual(again.read_bytes(), file.read_bytes())
        self.env["ATTACCA_CACHE_DIR"] = str(self.folder / "other")
        self.assertEqual([each["source"] for each in
                          json.loads(self.gpu("run", "--dim", "M=7", "--json"))["decisions"]],
                         ["database"] * 2)

    def test_quick_choices_replace_none_that_were_measured_longer(self):
        shipped = self.folder / "shipped"
        shipped.mkdir()
        self.env["ATTACCA_TUNED_DIR"] = str(shipped)
        self.odd("tune", "--budget", "1")
        self.tuned("--export", shipped / "fake.choices")
        file = self.folder / "quick.choices"
        self.change("UPDATE choices SET quick = 1, candidate = candidate || ' raster=1'")
        self.tuned("--export", file)
        self.assertEqual(self.source(), "shipped")
        self.odd("tune", "--budget", "1")
        before = self.tuned("--show")
        self.assertIn(": 0 added, 0 changed, 0 already there, 1 left out: they are of quick",
                      self.tuned("--import", file))
        self.assertEqual(self.tuned("--show"), before)
        (shipped / "fake.choices").unlink()
        self.tuned("--forget")
        self.assertIn(": 1 added, ", self.tuned("--import", file))
        self.assertEqual(self.source(), "database")

    def test_choices_that_do_not_hold_are_refused_whole(self):
        self.odd("tune", "--budget", "1")
        file = self.folder / "gpu.choices"
        self.tuned("--export", file)
        before = self.tuned("--show")
        for change, what in [
            (("Fake 0", "Fake 9"), "they were measured on Fake 9, this is Fake 0"),
            (("cuBLASLt 0", "cuBLASLt 130100"), "measured with cuBLASLt 130100 (here 0)"),
            (("driver 1", "driver 9"), "measured with driver 9"),
            (('"candidate":"', '"candidate":"x'), "its lines do not have the hash"),
        ]:
            changed = self.folder / "changed.choices"
            changed.write_text(file.read_text().replace(*change))
            err = self.tuned("--import", changed, code=2)
            self.assertIn(what, err)
            self.assertIn(f"at: {changed}", err)
            self.assertIn("fix: ", err)
        self.assertIn("not a file of tuned choices",
                      self.tuned("--import", self.write("x", "x.choices"), code=2))
        self.assertIn("missing.choices", self.tuned("--import", self.folder / "missing.choices",
                                                    code=2))
        self.assertIn("excludes", self.tuned("--import", file, "--export", file, code=2))
        self.assertEqual(self.tuned("--show"), before)

    def test_shipped_choices_are_asked_after_the_users_own(self):
        shipped = self.folder / "shipped"
        shipped.mkdir()
        self.env["ATTACCA_TUNED_DIR"] = str(shipped)
        self.odd("tune", "--budget", "1")
        self.tuned("--export", shipped / "fake.choices")
        self.assertEqual(self.source(), "database")
        self.tuned("--forget")
        (decision,) = self.odd("run")["decisions"]
        self.assertEqual((decision["source"], decision["candidate"]),
                         ("shipped", "mma_xx_64x64x32_f2_d16"))
        self.assertEqual(self.source("--tune"), "shipped")
        doctor = attacca("doctor", env=self.env)[1]
        self.assertIn(f"shipped    1 choices for Fake 0 in {shipped}/fake.choices, 1 hold here\n",
                      doctor)
        self.odd("tune", "--budget", "1")
        self.change("UPDATE choices SET candidate = candidate || ' raster=1'")
        (decision,) = self.odd("run")["decisions"]
        self.assertEqual((decision["source"], decision["candidate"]),
                         ("database", "mma_xx_64x64x32_f2_d16 raster=1"))
        # Of another template, of another device, damaged.
        self.tuned("--forget")
        text = (shipped / "fake.choices").read_text()
        for change in [("Fake 0", "Fake 9"), ("mma_xx_64x64x32", "mma_xx_64x64x33")]:
            (shipped / "fake.choices").write_text(text.replace(*change))
            self.assertEqual(self.source(), "model")
        self.assertIn("warning: shipped choices are not used", attacca(
            "run", self.folder / "odd.attacca", "--device", "cuda", "--dim", "M=16",
            env=self.env)[2])
        self.assertIn("its lines do not have the hash", attacca("doctor", env=self.env)[1])

    def test_a_cache_that_others_may_write_is_said_once(self):
        cache = self.folder / "cache"
        cache.mkdir()
        cache.chmod(0o777)
        report = self.odd("run")
        err = attacca("run", self.folder / "odd.attacca", "--device", "cuda", "--dim", "M=16",
                      env=self.env)[2]
        self.assertEqual(err.count("warning: the tuning database is not used: another user"), 1,
                         err)
        self.assertEqual(err.count("another user may have written it; kernels are compiled again"),
                         1, err)
        self.assertEqual(len(report["warnings"]), 2)
        self.assertTrue(all("chmod go-w" in each["fix"] for each in report["warnings"]))
        self.assertEqual([path for path in cache.rglob("*") if path.is_file()], [])

    def test_a_locked_database_costs_one_wait(self):
        graph = self.folder / "six.attacca"
        graph.write_text(
            "graph six(x: bf16[M, 63], w: bf16[63, 63]) {\n  a = relu(x @ transpose(w))\n"
            + "".join(
            f"  {out} = {op}({of} @ transpose(w))\n" for out, op, of in
            [("b", "gelu", "a"), ("c", "silu", "b"), ("d", "tanh", "c"), ("e", "mish", "d")]) +
            "  return relu(e @ transpose(w))\n}\n")
        args = ("run", graph, "--device", "cuda", "--dim", "M=16")
        start = time.monotonic()
        self.assertEqual(attacca(*args, env=self.env)[0::2], (0, ""))
        free = time.monotonic() - start
        with contextlib.closing(sqlite3.connect(self.folder / "cache"
                                                / "tuned.sqlite")) as database:
            database.execute("BEGIN EXCLUSIVE")
            start = time.monotonic()
            code, _, err = attacca(*args, env=self.env)
            took = time.monotonic() - start
            report = json.loads(attacca(*args, "--json", env=self.env)[1])
        self.assertEqual(code, 0)
        self.assertEqual(err.count("another process keeps the tuning database locked"), 1, err)
        self.assertIn("locked", report["warnings"][0]["what"])
        self.assertLess(took, free + 12)

    def script(self, name, *args):
        """A script of bench/gpu with a small problem."""
        code = (f"import sys; sys.path.insert(0, {str(BENCH)!r}); import alike, shipped\n"
                "shipped.FORMS[:] = [shipped.Form('odd', shipped.PLAIN,"
                " 'return relu(x @ transpose(w))', [(33, 63)])]\n"
                "shipped.ROWS[:] = [[16], [5, 8]]\n"
                "alike.PROBLEMS[:] = [('relu({x} @ transpose({w}))', 5, 33, 63)] * 2\n"
                f"{name}.main()")
        done = subprocess.run([sys.executable, "-c", code, "--attacca", ATTACCA, "--budget", "1",
                               *map(str, args)], env={**os.environ, **self.env},
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_the_script_of_shipped_choices_adds_to_its_file(self):
        out = self.folder / "fake.choices"
        self.assertIn("exported 1 choice for Fake 0", self.script("shipped", "--out", out, "--most",
                                                                  1))
        first = out.read_text().splitlines()[1]
        said = self.script("shipped", "--out", out)
        self.assertIn("imported 1 choice for Fake 0", said)
        self.assertIn("exported 2 choices for Fake 0", said)  # M = 5 and 8 have one bucket
        self.assertIn(first, out.read_text().splitlines())
        # As before a template was added.
        out.write_text(out.read_text().replace("templates ", "templates f", 1))
        self.assertIn("imported 2 choices for Fake 0", self.script("shipped", "--out", out))
        self.assertIn(first, out.read_text().splitlines())

    def test_processes_of_the_stand_in_choose_alike(self):
        file = self.folder / "rounds.json"
        self.assertIn("0 of 6 choices differ from the most common one",
                      self.script("alike", "--processes", 3, "--rounds", file))
        problems = json.loads(file.read_text())
        self.assertEqual([len(processes) for processes in problems], [6, 6])
        for processes in problems:
            for process in processes:
                self.assertIn("mma_xx_64x64x32_f2_d16", process)
                self.assertEqual({len(seconds) for seconds in process.values()}, {66})

    def test_tune_takes_only_what_is_missing(self):
        self.odd("tune", "--budget", "1")
        self.change("UPDATE choices SET candidate = candidate || ' raster=1'")
        (row,) = self.odd("tune", "--missing")["tuned"]
        self.assertEqual((row["winner"], row["candidates"]),
                         ("mma_xx_64x64x32_f2_d16 raster=1", []))
        self.tuned("--forget")
        (row,) = self.odd("tune", "--missing")["tuned"]
        self.assertEqual(row["candidates"][0]["candidate"], row["winner"])

    def test_what_was_chosen_before_is_kept_in_a_tie(self):
        (row,) = self.odd("tune", "--budget", "1")["tuned"]
        self.assertEqual(row["winner"], "mma_xx_64x64x32_f2_d16")
        self.change("UPDATE choices SET candidate = candidate || ' raster=1'")
        (row,) = self.odd("tune", "--budget", "1")["tuned"]
        self.assertEqual((row["winner"], row["next"], row["next_us"]),
                         ("mma_xx_64x64x32_f2_d16 raster=1", "mma_xx_64x64x32_f2_d16", row["us"]))

    def test_tune_prints_a_table(self):
        out = self.gpu("tune", "--dim", "M=16", "--allow", "mma_*", "--budget", "1", "--list")
        self.assertRegex(out,
                         r"^region  size +us  unfused us   ratio    lead  winner\n"
                         r" +1  M=16 +\d+\.\d\d +\S+ +\S+ +(-|[+-]\d+\.\d%)  ")
        self.assertRegex(out, r"mma_\w+: ranked below those that were timed")
        self.assertIn("cutlass_tn_128x128x64_2x1_pingpong_f1: not allowed by mma_*", out)
        self.assertIn("unfused", out)

    def test_without_a_budget_the_model_chooses(self):
        row, = json.loads(self.gpu("tune", "--dim", "M=16", "--budget", "0", "--json"))["tuned"][:1]
        self.assertGreater(row["expected_us"], 0)
        self.assertEqual(row["candidates"], [])
        self.assertEqual(json.loads(attacca("tune", "--show", "--json",
                                            env=self.env)[1])["choices"], [])
        self.assertRegex(self.gpu("tune", "--dim", "M=16", "--budget", "0"),
                         r"\n +1  M=16 +~\d+\.\d\d +- +-  ")

    def test_run_measures_first(self):
        out = self.gpu("run", "--tune", "--dim", "M=16", "--output", self.folder / "out")
        self.assertRegex(out, r"\nregion 1 by \S+.* \(measured, \d+\.\d\d us")
        self.assertRegex(out, r"time: fused \d+\.\d{3} ms")
        self.assertEqual(len(list((self.folder / "out").glob("*.npy"))), 1)

    def test_what_cannot_be_measured_runs_as_the_model_says(self):
        odd = self.folder / "odd.attacca"
        odd.write_text(
            "graph odd(x: bf16[M, 63], w: bf16[33, 63]) {\n  return relu(x @ transpose(w))\n}\n")
        env = {**self.env, "ATTACCA_TUNE_WORKER": str(self.folder / "nothing")}
        code, out, err = attacca("run", odd, "--device", "cuda", "--tune", "--dim", "M=5", env=env)
        self.assertEqual(code, 0, err)
        self.assertRegex(out, rf"\nregion 1 by {ANY_STRIDES}"
                              r"\(model, not measured: no candidate ran: ")
        code, _, err = attacca("tune", odd, "--dim", "M=5", env=env)
        self.assertEqual(code, 2)
        self.assertIn("no candidate ran", err)

    def test_no_such_device(self):
        self.refused("run", self.graph, "--device", "cuda:7", what="7", env=self.env)

    def bench(self, what, *args):
        code, out, err = attacca("bench", what, *args, env=self.env)
        self.assertEqual((code, err), (0, ""))
        return [json.loads(line) for line in out.splitlines()]

    def test_bench_cold(self):
        cold, known, missing = (
            self.bench("cold", "--template", name, "--epilogue", "relu(acc + row(bias))", "--cache",
                       self.folder / "kernels")[1] for name in (SMALL, SMALL, "nope"))
        for part in ("emit_ms", "nvrtc_ms", "splice_ms", "assemble_ms"):
            self.assertGreater(cold["first"][part], 0)
            self.assertEqual(cold["disk"][part], 0)
        cached = [each["cached"]
                  for each in (cold["first"], cold["disk"], cold["memory"], known["first"])]
        self.assertEqual(cached, [False, True, True, True])
        self.assertEqual(missing["failed"], "no template nope")

    def test_bench_launch(self):
        nothing, plan, kernel = self.bench("launch", "--template", "mma_xx_64x64x32_f2_d16",
                                           "--epilogue", "relu(acc)", "--m", "16", "--n", "60",
                                           "--k", "60")
        self.assertRegex(plan["plan"], f"^{ANY_STRIDES}")  # its rows have 120 bytes
        for took in (nothing["empty_kernel_us"], plan["plan_us"], kernel["same_operands_us"],
                     kernel["changing_operands_us"]):
            self.assertGreater(took, 0)

    def test_bench_whole(self):
        source = attacca("bench", "whole", "--template", SMALL, "--epilogue", "relu(acc)",
                         "--source")[1]
        self.assertIn('extern "C" __device__ attacca_results attacca_hole(', source)
        image = self.write("anything: the stand-in takes it", "whole.cubin")
        (line,) = self.bench("whole", "--template", SMALL, "--epilogue", "relu(acc)", "--image",
                             image,
                             "--m", "16", "--n", "64", "--k", "64")
        self.assertGreater(line["spliced_us"] * line["whole_us"], 0)


if __name__ == "__main__":
    unittest.main()
