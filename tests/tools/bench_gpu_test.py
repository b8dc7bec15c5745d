"""The benchmark scripts of bench/gpu without a GPU: made-up times through rows, table and plot; and
docs/benchmarks beside its table and its data."""

import contextlib
import io
import itertools
import os
import pathlib
import shutil
import sys
import tempfile
import unittest
import xml.dom.minidom
from unittest import mock

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench")
sys.path[:0] = [os.path.join(BENCH, "gpu"), BENCH]

import tuning_growth

import attacca_side
import cases
import csv_run
import documented
import first_call
import mixed_page
import models_page
import pages
import peers
import program
import rows
import run
import splice_cost
import table
import tensor_parallel
import user_kernels
from user_kernel_cases import TAILS, cases as user_kernel_cases


class Cases(unittest.TestCase):
    def test_no_case_twice_and_quoted_ones_first(self):
        for full in (False, True):
            listed = cases.cases(full)
            self.assertEqual(len(listed), len(set(listed)))
            self.assertEqual(listed[0], cases.Case("bias_gelu", *cases.QUOTED[0]))

    def test_the_short_run_is_part_of_the_full_one(self):
        self.assertLessEqual(set(cases.cases()), set(cases.cases(full=True)))

    def test_shards_share_the_cases_out(self):
        every = cases.cases()
        parts = [cases.shard(every, f"{i}/4") for i in range(4)]
        self.assertEqual(sorted(every), sorted(sum(parts, [])))
        with self.assertRaises(ValueError):
            cases.shard(every, "4/4")


class FirstCall(unittest.TestCase):
    def test_a_seed_gives_the_same_cases_of_every_form(self):
        once, again = (list(itertools.islice(first_call.cases(5), 200)) for _ in range(2))
        self.assertEqual(once, again)
        self.assertEqual({case.form for case in once}, set(first_call.FORMS))
        self.assertNotEqual(once, list(itertools.islice(first_call.cases(6), 200)))

    def test_speeds_are_over_the_faster_peer(self):
        row = dict(zip(first_call.TIMES, ("30", "20", "25", "10")))
        self.assertEqual(first_call.speeds(row), (0.8, 2.0, 0.4))

    def test_the_page_has_each_form_and_the_slowest_case(self):
        rows_ = [{**case._asdict(), "eager_us": 20, "inductor_us": 21, "tuned_us": 18,
                  "first_us": 20 + number, "first": f"kernel{number}"}
                 for number, case in enumerate(itertools.islice(first_call.cases(5), 40))]
        with tempfile.TemporaryDirectory() as folder:
            data = os.path.join(folder, "times.csv")
            csv_run.write(data, first_call.COLUMNS, {"seed": 5}, rows_)
            first_call.main(["--page", data, "--out", os.path.join(folder, "page")])
            with open(os.path.join(folder, "page.md"), encoding="utf-8") as file:
                page = file.read()
        for form in {row["form"] for row in rows_}:
            self.assertIn(f"| {form} |", page)
        self.assertIn("`kernel39`", page)
        self.assertNotIn("`kernel3`", page)


class DryRun(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def measure(self, name, *more):
        peers.main(["--dry-run", "--csv", self.path(name), *more])
        return rows.read(self.path(name))

    def page(self, *names):
        table.main([*map(self.path, names), "--out", self.path("out")])
        with open(self.path("out.md"), encoding="utf-8") as file:
            return file.read()

    def test_every_case_has_a_row(self):
        facts, found = self.measure("a.csv")
        self.assertEqual([rows.case_of(row) for row in found], cases.cases())
        self.assertEqual(facts["device"], "none (dry run)")

    def test_what_fails_leaves_its_reason(self):
        _, found = self.measure("a.csv")
        ragged = next(r for r in found if r["m"] == 17 and r["epilogue"] == "bias_gelu")
        self.assertIsNone(ragged["max_autotune_us"])
        self.assertIn("max_autotune: made to fail in the dry run", ragged["notes"])
        self.assertIsNotNone(ragged["eager_us"])

    def test_a_run_goes_on_where_the_last_one_stopped(self):
        self.measure("a.csv", "--first", "3")
        _, found = self.measure("a.csv", "--first", "4")
        self.assertEqual([rows.case_of(row) for row in found], cases.cases()[:7])

    def test_max_autotune_can_be_left_out_of_most_cases(self):
        _, found = self.measure("a.csv", "--max-autotune-every", "4")
        with_it = [row for row in found if row["max_autotune_us"]]
        self.assertIn(len(with_it), range(len(found) // 4 - 10, len(found) // 4 + 20))
        self.assertTrue(all(row["max_autotune_us"] for row in found[:2 * len(cases.QUOTED)]))
        self.assertIn("max_autotune: left out",
                      next(r for r in found if not r["max_autotune_us"])["notes"])

    def test_only_some_rows_of_a(self):
        _, found = self.measure("a.csv", "--rows", "17", "64")
        self.assertEqual([(row["m"], row["n"]) for row in found],
                         [(case.m, case.n) for case in cases.cases() if case.m in (17, 64)])

    def test_no_time_means_no_rows(self):
        _, found = self.measure("a.csv", "--minutes", "-1")
        self.assertEqual(found, [])

    def test_the_page_names_losses_and_failures(self):
        self.measure("a.csv", "--shard", "0/2")
        self.measure("b.csv", "--shard", "1/2")
        page = self.page("a.csv", "b.csv")
        self.assertIn("No case is slower than the fastest peer.", page)
        self.assertIn("- cublaslt: cuBLASLt has no SiLU epilogue", page)
        self.assertIn("- max_autotune: made to fail in the dry run", page)
        self.assertEqual(len(rows.read(self.path("out.csv"))[1]), len(cases.cases()))
        xml.dom.minidom.parse(self.path("out.svg"))

    def test_a_loss_is_named(self):
        facts, found = self.measure("a.csv", "--first", "2")
        found[0]["attacca_us"] = 2 * found[0]["eager_us"]
        lines = table.losses([table.Row(row) for row in found])
        self.assertIn("Slower than the fastest peer in 1 of 2 cases:", lines)
        self.assertIn("0.500", lines[-1])


class Columns(unittest.TestCase):
    def test_the_best_fused_candidate_is_told_from_the_selected_one(self):
        got = attacca_side.columns_of({
            "candidates": [{"candidate": "unfused algorithm=2", "us": 4.0},
                           {"candidate": "u", "us": 5.0}, {"candidate": "unfused", "us": 5.5},
                           {"candidate": "of an earlier round", "us": 3.5},
                           {"candidate": "v", "failed": "why"}],
            "bare_us": 3.0, "unfused_us": 4.0, "selected": "unfused algorithm=2",
            "selected_us": 4.0})
        self.assertEqual((got["attacca_us"], got["attacca_fused_us"], got["fused_kernel"]),
                         (4.0, 5.0, "u"))


    def test_what_was_not_launched_follows_from_the_tuners_times(self):
        side = attacca_side.ThroughCAbi.__new__(attacca_side.ThroughCAbi)
        side.tuned = attacca_side.columns_of_decision({
            "candidate": "unfused algorithm=2", "seconds": 4e-6, "unfused_seconds": 4e-6,
            "trials": [{"candidate": "unfused algorithm=2", "seconds": 4e-6},
                       {"candidate": "t", "seconds": 6e-6}, {"candidate": "v", "failed": "why"}]})
        got = side.completed({"attacca_us": 2.0})
        self.assertAlmostEqual(got["attacca_fused_us"], 3.0)
        self.assertAlmostEqual(got["attacca_unfused_us"], 2.0)


class Whole(unittest.TestCase):
    def test_the_hole_keeps_its_own_types_and_loses_those_of_the_kernel(self):
        body = splice_cost.body_for_whole("""struct attacca_operand {
  void* pointer;
};
struct attacca_hole_context {
  attacca_operand operand[12];
};
struct attacca_results { uint32_t word[1]; };
struct attacca_outputs {
  float out0;
};
extern "C" __device__ attacca_results attacca_hole(uint32_t acc0_0) {
  attacca_results results;
}
""")
        self.assertEqual(body.split("struct ")[1:][0].split()[0], "attacca_outputs")
        self.assertIn("__forceinline__ attacca_results attacca_hole(uint32_t acc0_0)", body)
        with self.assertRaises(RuntimeError):
            splice_cost.body_for_whole("nothing")

    def test_nvcc_makes_a_cubin_of_the_other_source(self):
        command, kernel = splice_cost.whole_command(
            ["nvcc", "-ptx", "-gencode", "arch=compute_90a,code=compute_90a", "-DA=1",
             "-MD", "-MF", "t.d", "-MT", "t.ptx", "src/gemm.cu", "-o", "t.ptx"], "w.cu", "w.cubin")
        self.assertEqual(command, ["nvcc", "-cubin", "-gencode", "arch=compute_90a,code=sm_90a",
                                   "-DA=1", "w.cu", "-o", "w.cubin"])
        self.assertEqual(kernel, "src/gemm.cu")


class Program(unittest.TestCase):
    def answer(self, text, **options):
        return program.answer(sys.executable, "-c", text, **options)

    def test_an_answer_is_what_was_printed(self):
        self.assertEqual(self.answer("print(1)"), "1\n")
        self.assertEqual(self.answer("import os; print(os.environ['A'])", env={"A": "b"}), "b\n")

    def test_a_failure_has_its_reason_in_one_line(self):
        for text, reason in [("import sys; sys.exit('why\\nnot')", "^why not$"),
                             ("print('so'); raise SystemExit(2)", "^so$"),
                             ("raise SystemExit(3)", "^exit status 3$")]:
            with self.assertRaisesRegex(RuntimeError, reason):
                self.answer(text)
        with self.assertRaisesRegex(RuntimeError, "no answer for 0.1 s"):
            self.answer("import time; time.sleep(9)", timeout=0.1)


class Pages(unittest.TestCase):
    def test_numbers(self):
        self.assertEqual([pages.number(value, 1) for value in (None, "", float("nan"), 0.0, 2)],
                         ["-", "-", "-", "0.0", "2.0"])

    def test_tables(self):
        self.assertEqual(pages.table(["a", "b", "c"], [["x", "y", 1]], texts=2),
                         ["| a | b | c |", "|---|---|---:|", "| x | y | 1 |"])
        self.assertEqual(pages.table(["a"], []), ["| a |", "|---|"])

    def test_lists(self):
        self.assertEqual(pages.listed("Failed:", ["a"]), ["Failed:", "", "- a", ""])
        self.assertEqual(pages.listed("Failed:", []), [])


class MixedPage(unittest.TestCase):
    HEAD = ("codes,group,epilogue,m,n,k,attacca_us,product_us,kernel,unfused_us,cublas_us,torch_us,"
            "ratio,weights_gbps\n")

    def test_later_rows_replace_earlier_ones(self):
        with tempfile.TemporaryDirectory() as folder:
            first, second, out = (os.path.join(folder, name) for name in ("a.csv", "b.csv", "out"))
            with open(first, "w", encoding="utf-8") as file:
                file.write("# device: a GPU\n# torch: 2\n# date: 2026-01-02\n" + self.HEAD +
                           "s4,128,none,16,64,96,5.00,,old,9.00,15.00,,3.00,700\n"
                                       "s8,128,bias_silu,1,128,96,4.00,3.90,x,9.00,8.00,,2.00,"
                           "600\n")
            with open(second, "w", encoding="utf-8") as file:
                file.write(self.HEAD + "s4,128,none,16,64,96,4.00,,new,9.00,14.00,,3.50,800\n")
            with mock.patch.object(sys, "argv", ["mixed_page.py", first, second, "--out", out]):
                mixed_page.main()
            with open(out + ".md", encoding="utf-8") as file:
                text = file.read()
            self.assertIn("On a GPU, PyTorch 2; 2026-01-02.", text)
            self.assertIn("| 16 | s4 | 1 | 3.50 | 3.50 | 3.50 |", text)
            self.assertEqual(text.splitlines()[-2:], [
                "| 1 x 128 x 96 | s8 | bias, SiLU | 4.0 | 3.9 | 8.0 | 2.00 | 600 | `x` |",
                "| 16 x 64 x 96 | s4 |  | 4.0 | - | 14.0 | 3.50 | 800 | `new` |"])
            self.assertEqual(mixed_page.read([out + ".csv"]), mixed_page.read([first, second]))


class UserKernels(unittest.TestCase):
    PTX = """
.visible .entry other(.param .u32 other_param_0) { ret; }
.visible .entry add_kernel(
\t.param .u64 .ptr .global .align 1 add_kernel_param_0,
\t.param .align 8 .b64 add_kernel_param_1,
\t.param .u32 add_kernel_param_2,
\t.param .u64 .ptr .global .align 1 add_kernel_param_3
)
.reqntid 128
"""

    def test_arguments_are_those_of_the_ptx(self):
        types = user_kernels.entry_parameters(self.PTX, "add_kernel")
        self.assertEqual(types, ["u64", "b64", "u32", "u64"])
        own = user_kernels.own_arguments(types, [16, 32, 5])
        self.assertEqual(own, [("u64", 16), ("b64", 32), ("u32", 5), ("u64", 0)])
        cells, pointers = user_kernels.packed(own)
        self.assertEqual([cell.value for cell in cells], [16, 32, 5, 0])
        self.assertEqual(len(pointers), 4)

    def test_arguments_that_do_not_fit_are_errors(self):
        with self.assertRaises(RuntimeError):
            user_kernels.entry_parameters(self.PTX, "missing")
        with self.assertRaises(RuntimeError):
            user_kernels.own_arguments(["u64"], [1, 2])
        with self.assertRaises(RuntimeError):
            user_kernels.own_arguments(["u64", "u32"], [1])

    def test_ten_pairs_at_least(self):
        listed = user_kernel_cases()
        self.assertGreaterEqual(len(listed) * len(TAILS), 10)
        self.assertEqual(len({case.name.split(",")[0] for case in listed}), 3)

    def test_the_page_tells_of_every_pair(self):
        good = {"kernel": "add", "shape": "4 x 8", "dtype": "bf16", "tail": "relu(out)",
                "identical": "yes", "differing": 0, "kernel_us": 2.0, "eager_us": 8.0,
                "inductor_us": 4.0, "fused_us": 2.0, "fused_fp32_us": 1.9, "stores": 1,
                "fuse_ms": 30.0}
        page = user_kernels.page({"device": "a GPU"}, [
            good, {**good, "identical": "no", "differing": 3},
            {"kernel": "add", "shape": "1 x 1", "dtype": "bf16", "tail": "silu(out)",
             "failed": "no GPU"}])
        self.assertIn("1 of 2 pairs are identical. The fused kernel is 4.00 times", page)
        self.assertIn("| 3 differ |", page)
        self.assertIn("- add, 1 x 1, `silu(out)`: no GPU", page)


class TensorParallel(unittest.TestCase):
    def test_the_page_compares_with_the_others_and_the_bound(self):
        case = tensor_parallel.cases()[-1]
        row = {**case._asdict(), "eager_us": 500.0, "nccl_us": 300.0, "whole_us": 250.0,
               "direct_us": 160.0, "pieces_us": 152.0, "awaiting_us": 151.0, "attacca_us": 150.0,
               "chosen": "pieces", "products_us": 100.0, "wire_us": 120.0, "error": "1e-3",
               "equal": 1, "note": "PyTorch overlaps no all_reduce"}
        few = {**row, "rows": 512, "attacca_us": 240.0, "chosen": "direct", "note": ""}
        with tempfile.TemporaryDirectory() as folder:
            data = os.path.join(folder, "times.csv")
            csv_run.write(data, tensor_parallel.COLUMNS, {"ranks": 2}, [row, few])
            tensor_parallel.main(["--page", data, "--out", os.path.join(folder, "page")])
            with open(os.path.join(folder, "page.md"), encoding="utf-8") as file:
                page = file.read()
        self.assertIn("| 500.0 | 300.0 | - | 250.0 | 160.0 | 152.0 | 151.0 | - | 150.0 | pieces | "
                      "120.0 | 2.00x | 1.25 | 1e-3 | yes |", page)
        self.assertIn("the geometric mean of the time of NCCL over Attacca's is 2.000", page)
        self.assertIn("Below 2048 rows, the geometric mean of the time of NCCL over Attacca's is "
                      "1.250, at worst 1.25.", " ".join(page.split()))
        self.assertIn("reduce residual, 8192: PyTorch overlaps no all_reduce", page)

    def test_every_number_of_ranks_up_to_eight_divides_the_cases(self):
        for case in tensor_parallel.cases():
            self.assertEqual((case.rows % 8, case.inner), (0, case.inner // 256 * 256))


class Models(unittest.TestCase):
    FACTS = {"device": "a GPU", "torch": "2", "date": "2026-01-02"}

    def row(self, model, **values):
        return dict.fromkeys(models_page.COLUMNS, "") | {
            "model": model, "layers": 2, "batch": 1, "tokens": 16} | values

    def page(self, *rows):
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for i, row in enumerate(rows):
                paths.append(os.path.join(folder, f"{i}.csv"))
                csv_run.write(paths[-1], models_page.COLUMNS, self.FACTS, [row])
            models_page.main([*paths, "--out", os.path.join(folder, "models")])
            with open(os.path.join(folder, "models.md"), encoding="utf-8") as file:
                return file.read()

    def test_the_page(self):
        times = {"inductor_us": 100, "attacca_us": 90, "ratio": 100 / 90, "regions": 4, "left": 2,
                 "inductor_direct_us": 110, "attacca_direct_us": 100, "direct_ratio": 1.1,
                 "inductor_cold_s": 4, "attacca_cold_s": 5, "inductor_warm_s": 1,
                 "attacca_warm_s": 1, "error": 0.001, "measuring": "measuring took 1.0 s"}
        parts = {f"{contender}_{part}_us": 7 for contender in ("inductor", "attacca")
                 for part in models_page.PARTS}
        page = self.page(self.row("opt", **times, **parts),
                         self.row("t5", **times | {"ratio": 0.9, "attacca_cold_s": 8}),
                         self.row("falcon", note="RuntimeError: none"))
        self.assertIn("- over Inductor in a CUDA graph: 1.000x in the geometric mean of 2 cases, "
                      "at least 0.900x (t5, 2\n  layers, 1 x 16)\n", page)
        self.assertIn("- t5, 2 layers, 1 x 16: 0.900x in a CUDA graph\n", page)
        self.assertIn("- t5, 2 layers, 1 x 16: the first result, cold, after 2.00 times Inductor's",
                      page)
        self.assertNotIn("- opt, 2 layers, 1 x 16:", page)
        self.assertIn("| opt | 2 | 1 | 16 | 100.0 | 90.0 | 1.111 | 110.0 | 100.0 | 1.100 | 4 | "
                      "1.0e-03 |\n", page)
        self.assertIn("| opt | 2 | 1 | 16 | 4.00 | 5.00 | 1.00 | 1.00 | measuring took 1.0 s |\n",
                      page)
        self.assertIn("| opt | 2 | 1 | 16 | 7 | 7 | 7 | 7 | 7 | 7 | 7 | 7 |\n", page)
        self.assertEqual(page.count("| falcon | 2 | 1 | 16 | - |"), 1)
        self.assertIn("- falcon, 2 layers, 1 x 16: RuntimeError: none\n", page)

    def test_kernels_by_their_names(self):
        times = [("nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNN", 1),
                 ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16>", 1),
                 ("wgmma_tn_128x128x64_2x1_gate_f2_d16", 1), ("void splitKreduce_kernel<32>", 1),
                 ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128>>", 1),
                 ("triton_red_fused__softmax_add_3", 0.5),  # Inductor's own attention
                 ("triton_poi_fused_add_mul_silu_2", 1), ("Memcpy DtoD (Device -> Device)", 1)]
        self.assertEqual(models_page.by_part(times), {"products": 4, "attention": 1.5,
                                                      "generated": 1, "rest": 1})

    def test_later_rows_replace_earlier_ones(self):
        page = self.page(self.row("opt", ratio=0.5, inductor_us=1, attacca_us=2),
                         self.row("opt", ratio=2, inductor_us=2, attacca_us=1))
        self.assertIn("2.000x in the geometric mean of 1 cases", page)

    def test_rows_of_a_case_complete_each_other(self):
        parts = {f"{contender}_{part}_us": 7 for contender in ("inductor", "attacca")
                 for part in models_page.PARTS}
        page = self.page(self.row("opt", ratio=2, inductor_us=2, attacca_us=1),
                         self.row("opt", **parts))
        self.assertIn("2.000x in the geometric mean of 1 cases", page)
        self.assertIn("| opt | 2 | 1 | 16 | 7 | 7 | 7 | 7 | 7 | 7 | 7 | 7 |\n", page)
        self.assertNotIn("0.500", page)


def source_of(script):
    with open(os.path.join(documented.ROOT, "bench/gpu", script), encoding="utf-8") as file:
        return file.read()


class Documented(unittest.TestCase):
    """docs/benchmarks is what bench/gpu/documented.py and the data beside it say."""

    FOLDER = os.path.join(documented.ROOT, documented.FOLDER)

    def test_every_file_belongs_to_a_page(self):
        known = {name for page in documented.PAGES for name in documented.files(page)}
        self.assertEqual(known | {"README.md"}, set(os.listdir(self.FOLDER)))
        for page in documented.PAGES:
            for name in page.data:
                folder = documented.ROOT if "/" in name else self.FOLDER
                self.assertTrue(os.path.exists(os.path.join(folder, name)), name)

    def test_the_pages_are_those_of_their_data(self):
        values = {"attacca": "-", "library": "-", "minutes": 0}
        for page in filter(lambda page: page.steps, documented.PAGES):
            with self.subTest(page.name), tempfile.TemporaryDirectory() as folder:
                for name in documented.files(page):
                    if name.endswith(".csv"):
                        shutil.copy(os.path.join(self.FOLDER, name), folder)
                self.assertTrue(run.step(page.steps[-1],
                                         {**values, "data": f"{folder}/{page.name}"}))
                for name in documented.files(page):
                    with open(os.path.join(folder, name), encoding="utf-8") as made, \
                            open(os.path.join(self.FOLDER, name), encoding="utf-8") as kept:
                        self.assertEqual(made.read(), kept.read(), name)

    def test_the_page_of_growing_tunings_is_that_of_its_data(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(shutil.copy(tuning_growth.DATA, folder))
            tuning_growth.page(copy)
            self.assertEqual(copy.with_suffix(".md").read_text(),
                             tuning_growth.DATA.with_suffix(".md").read_text())

    def test_old_pages_say_so_and_the_index_lists_all(self):
        texts = documented.read_pages(self.FOLDER)
        for name, text in texts.items():
            self.assertEqual(documented.with_notice(name, text), text,
                             f"{name}: run bench/gpu/documented.py")
        with open(os.path.join(self.FOLDER, "README.md"), encoding="utf-8") as file:
            self.assertEqual(file.read(), documented.index(texts), "run bench/gpu/documented.py")
        for name, (date, _) in documented.OUTDATED.items():
            self.assertEqual(date, documented.date_of(texts[name]),
                             f"{name} was measured again: remove it from OUTDATED")

    def test_a_page_measured_again_loses_its_notice(self):
        with mock.patch.dict(documented.OUTDATED, {"p": ("2026-01-02", "What changed.")}):
            old = documented.with_notice("p", "# T\n\nOn a GPU; 2026-01-02.\n")
            self.assertEqual(old, "# T\n\n> **Older than the code.** What changed.\n\n"
                                  "On a GPU; 2026-01-02.\n")
            self.assertEqual(documented.with_notice("p", old), old)
            documented.OUTDATED["p"] = ("2026-01-02", "What changed, at length. " * 9)
            long = documented.with_notice("p", old)
            self.assertEqual(documented.with_notice("p", long), long)
            self.assertLessEqual(max(map(len, long.splitlines())), 100)
            self.assertEqual(documented.with_notice("p", old.replace("01-02", "01-03")),
                             "# T\n\nOn a GPU; 2026-01-03.\n")

    def test_a_run_measures_the_usual_pages_and_names_the_commands_of_the_others(self):
        steps = []
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(run, "step", lambda text, values: steps.append(text) or True), \
                contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(run.main(["--attacca", "a", "--out", folder]), 0)
            self.assertEqual({text.split()[0] for text in steps},
                             {"peers.py", "table.py", "cold.py", "user_kernels.py"})
            self.assertIn("gpu-gates.md: not measured; make bench-gpu PAGES=gpu-gates\n",
                          said.getvalue())
            self.assertIn("cpu.md: not measured; make bench-cpu\n", said.getvalue())
            del steps[:]
            run.main(["--attacca", "a", "--out", folder, "--references"])
            self.assertEqual({text.split()[0] for text in steps},
                             {"peers.py", "table.py", "mixed.py", "mixed_page.py",
                              "references.py", "references_page.py", "scaled_blocks.py",
                              "scaled_blocks_page.py", "user_kernels.py"})
            del steps[:]
            run.main(["--attacca", "a", "--out", folder, "--pages", "gpu-gates"])
            self.assertEqual([text.split()[0] for text in steps], ["peers.py", "table.py"])

    def test_the_usual_pages_fit_into_ten_minutes(self):
        self.assertLessEqual(sum(page.minutes for page in documented.PAGES if page.usual), 10)

    def test_every_script_of_a_step_takes_its_options(self):
        for page in documented.PAGES:
            for step in page.steps:
                script, *words = step.split()
                source = source_of(script)
                for module in ("program", "tuned_plan"):  # which have options for several scripts
                    if f"import {module}" in source:
                        source += source_of(f"{module}.py")
                for option in (word for word in words if word.startswith("--")):
                    self.assertIn(f'"{option}"', source, f"{script} {option}")


if __name__ == "__main__":
    unittest.main()
