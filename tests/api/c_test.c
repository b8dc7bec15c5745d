/* The C interface from C. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attacca/attacca.h"

static int failures = 0;

static void check(int holds, const char* what) {
  if (holds) return;
  ++failures;
  fprintf(stderr, "failed: %s\n", what);
}

static int ok(attacca_status* status) {
  if (status == NULL) return 1;
  fprintf(stderr, "%s at %s: %s\n", attacca_status_what(status), attacca_status_where(status),
          attacca_status_fix(status));
  attacca_status_free(status);
  return 0;
}

static attacca_graph* build(void) {
  attacca_builder* builder = NULL;
  attacca_graph* graph = NULL;
  attacca_value operands[2], product, y;
  check(ok(attacca_builder_create("g", &builder)), "create");
  check(ok(attacca_builder_input(builder, "x", "f32[M, 2]", &operands[0])), "input x");
  check(ok(attacca_builder_input(builder, "w", "f32[2, 2]", &operands[1])), "input w");
  check(ok(attacca_builder_call(builder, "matmul", operands, 2, NULL, &product)), "matmul");
  check(ok(attacca_builder_call(builder, "tanh", &product, 1, NULL, &y)), "tanh");
  check(ok(attacca_builder_output(builder, y, "y")), "output");
  check(ok(attacca_builder_finish(builder, &graph)), "finish");
  attacca_builder_free(builder);
  return graph;
}

static void run(const attacca_plan* plan) {
  const attacca_size size = {"M", 2};
  attacca_instance* instance = NULL;
  const float x[] = {1, 2, 3, 4}, w[] = {0.1f, 0.2f, 0.3f, 0.4f};
  float y[4] = {9, 9, 9, 9};
  const void* inputs[2];
  void* outputs[1];
  size_t rank = 0;
  int i, j;
  inputs[0] = x;
  inputs[1] = w;
  outputs[0] = y;
  check(ok(attacca_plan_prepare(plan, &size, 1, NULL, 0, &instance)), "prepare");
  check(attacca_instance_output_shape(instance, 0, &rank)[0] == 2 && rank == 2, "output shape");
  check(attacca_instance_output_bytes(instance, 0) == sizeof y, "output bytes");
  check(ok(attacca_instance_run(instance, inputs, 2, outputs, 1, NULL, 0, NULL)), "run");
  for (i = 0; i < 2; ++i)
    for (j = 0; j < 2; ++j)
      check(fabs(y[i * 2 + j] - tanh(x[i * 2] * w[j] + x[i * 2 + 1] * w[2 + j])) < 1e-5, "value");
  attacca_instance_free(instance);
}

/* Rows of three, of which the plan has two, and a result that would overwrite an input. */
static void run_strided(const attacca_plan* plan) {
  const attacca_size size = {"M", 2};
  const int64_t row[2] = {3, 1};
  const int64_t* strides[3] = {NULL, NULL, NULL};
  attacca_instance* instance = NULL;
  attacca_status* status;
  const float w[] = {1, 0, 0, 1};
  float x[6] = {0.1f, 0.2f, 7, 0.3f, 0.4f, 7}, y[6] = {9, 9, 9, 9, 9, 9};
  const void* inputs[2];
  void* outputs[1];
  int i;
  inputs[0] = x;
  inputs[1] = w;
  outputs[0] = y;
  strides[0] = strides[2] = row;
  check(ok(attacca_plan_prepare_strided(plan, &size, 1, NULL, 0, strides, 3, &instance)),
        "prepare strided");
  check(attacca_instance_output_bytes(instance, 0) == 5 * sizeof(float), "strided output bytes");
  check(ok(attacca_instance_run(instance, inputs, 2, outputs, 1, NULL, 0, NULL)), "run strided");
  for (i = 0; i < 6; ++i)
    check(fabs(y[i] - (i % 3 == 2 ? 9 : tanh(x[i]))) < 1e-5, "strided value");
  outputs[0] = x;
  status = attacca_instance_run(instance, inputs, 2, outputs, 1, NULL, 0, NULL);
  check(strcmp(attacca_status_what(status), "output y overlaps input x") == 0, "overlap");
  attacca_status_free(status);
  attacca_instance_free(instance);
}

static void pack(void) {
  const unsigned char weights[2 * 4] = {0x21, 0x43, 0x65, 0x87, 0xa9, 0xcb, 0xed, 0x0f};
  const float scales[2] = {0.5f, 2};
  unsigned char back[2 * 4];
  float back_scales[2];
  attacca_packing packing = {0}, found = {0};
  attacca_bytes* packed = NULL;
  attacca_status* status;
  packing.size = found.size = sizeof packing;
  packing.n = 2;
  packing.k = 8;
  packing.weights = "s8";
  packing.bits = 4;
  packing.scales = "f32";
  check(ok(attacca_weights_pack(&packing, weights, scales, NULL, &packed)), "pack");
  check(ok(attacca_weights_describe(attacca_bytes_data(packed), attacca_bytes_size(packed),
                                    &found)),
        "describe");
  check(found.n == 2 && found.k == 8 && found.bits == 4 && found.group == 0 && !found.zeros &&
            strcmp(found.weights, "s8") == 0 && strcmp(found.scales, "f32") == 0,
        "described");
  check(ok(attacca_weights_unpack(attacca_bytes_data(packed), attacca_bytes_size(packed), back,
                                  back_scales, NULL)),
        "unpack");
  check(memcmp(back, weights, sizeof back) == 0 && memcmp(back_scales, scales, 8) == 0, "weights");
  status = attacca_weights_describe(attacca_bytes_data(packed), attacca_bytes_size(packed) - 1,
                                    &found);
  check(status != NULL && strlen(attacca_status_fix(status)) > 0, "cut off");
  check(strcmp(attacca_status_where(status), "packed") == 0, "which argument");
  attacca_status_free(status);
  packing.group = 96;
  status = attacca_weights_pack(&packing, weights, scales, NULL, &packed);
  check(strcmp(attacca_status_what(status), "groups of 96") == 0, "a bad group");
  check(strcmp(attacca_status_where(status), "packing") == 0, "which argument");
  attacca_status_free(status);
  attacca_bytes_free(packed);
}

int main(void) {
  attacca_graph* graph = build();
  attacca_plan *plan = NULL, *loaded = NULL;
  attacca_bytes *file = NULL, *text = NULL, *before = NULL;
  attacca_tensor_info info;
  attacca_status* status;
  attacca_value value;
  attacca_builder* builder = NULL;
  attacca_options options = {0};
  options.size = sizeof options;
  options.threads = 1;
  check(ok(attacca_plan_compile(graph, &options, &plan)), "compile");
  check(!attacca_plan_batch_invariant(plan), "not batch-invariant");
  attacca_plan_free(plan);
  options.batch_invariant = 1;
  check(ok(attacca_plan_compile(graph, &options, &plan)), "compile");
  check(attacca_plan_batch_invariant(plan), "batch-invariant");
  attacca_plan_free(plan);
  options.size = offsetof(attacca_options, batch_invariant); /* of a program built before it */
  check(ok(attacca_plan_compile(graph, &options, &plan)), "compile with the older structure");
  check(!attacca_plan_batch_invariant(plan), "the member is not read");
  options.size = sizeof options;
  check(ok(attacca_plan_input(plan, 0, &info)), "info");
  check(strcmp(info.name, "x") == 0 && strcmp(info.dtype, "f32") == 0 && info.rank == 2 &&
            strcmp(info.shape[0], "M") == 0 && strcmp(info.type, "f32[M, 2]") == 0,
        "input x");
  check(attacca_plan_symbol_count(plan) == 1 && strcmp(attacca_plan_symbol(plan, 0), "M") == 0,
        "symbols");
  run(plan);
  run_strided(plan);
  check(ok(attacca_graph_text(graph, &before)), "graph text");
  check(ok(attacca_plan_graph_text(plan, &text)), "plan's graph text");
  check(strstr(attacca_bytes_data(text), "x: f32[M, 2]") != NULL, "text of the input");
  check(strcmp(attacca_bytes_data(text), attacca_bytes_data(before)) == 0, "graph compiled");
  attacca_bytes_free(before);
  attacca_bytes_free(text);
  check(ok(attacca_plan_explain_text(plan, &text)), "explain");
  check(strstr(attacca_bytes_data(text), "tanh(acc)") != NULL, "explain text");
  check(ok(attacca_plan_serialize(plan, &file)), "serialize");
  check(ok(attacca_plan_deserialize(attacca_bytes_data(file), attacca_bytes_size(file), NULL,
                                    &loaded)),
        "deserialize");
  attacca_plan_free(plan);
  run(loaded);
  check(ok(attacca_builder_create(NULL, &builder)), "create");
  check(ok(attacca_builder_input(builder, "x", "f32[M]", &value)), "input");
  status = attacca_builder_call(builder, "sigmoyd", &value, 1, NULL, &value);
  check(strcmp(attacca_status_what(status), "unknown op sigmoyd") == 0, "unknown op");
  check(strcmp(attacca_status_fix(status), "did you mean sigmoid?") == 0, "did you mean");
  attacca_status_free(status);
  status = attacca_builder_call(builder, "constant", NULL, 0, "1.5, f32", &value);
  check(strcmp(attacca_status_what(status), "constant is not called by operands") == 0, "constant");
  attacca_status_free(status);
  status = attacca_builder_constant(builder, "f32[9223372036854775807, 0]", NULL, 0, &value);
  check(strcmp(attacca_status_what(status),
               "a tensor f32[9223372036854775807, 0] has too large a size beside its 0") == 0,
        "a size too large");
  attacca_status_free(status);
  attacca_builder_free(builder);
  attacca_plan_free(loaded);
  attacca_bytes_free(text);
  attacca_bytes_free(file);
  attacca_graph_free(graph);
  pack();
  check(strlen(attacca_version()) > 0, "version");
  return failures == 0 ? 0 : 1;
}
