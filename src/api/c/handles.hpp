// The structs behind the C interface's handles.
#pragma once

#include <memory>

#include "api/builder.hpp"
#include "api/parts.hpp"
#include "api/plan.hpp"
#include "attacca/attacca.h"

struct attacca_graph {
  attacca::ir::Graph graph;
};

struct attacca_builder {
  attacca::api::Builder builder;
};

struct attacca_plan {
  explicit attacca_plan(std::shared_ptr<const attacca::api::Plan> made);

  // A plan's info in the form of the C interface.
  struct Tensor {
    std::vector<const char*> shape;
    attacca_tensor_info info;
  };
  std::shared_ptr<const attacca::api::Plan> plan;
  std::string device;
  std::vector<Tensor> inputs, outputs;
};

struct attacca_instance {
  explicit attacca_instance(std::shared_ptr<const attacca::api::Instance> made);

  std::shared_ptr<const attacca::api::Instance> instance;
  std::vector<std::string> candidates;  // one a decision
};

struct attacca_parts {
  std::shared_ptr<const attacca::api::Parts> parts;
  std::string candidate;
};
