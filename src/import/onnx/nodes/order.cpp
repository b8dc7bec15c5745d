#include "import/onnx/nodes/order.hpp"

#include <functional>
#include <queue>
#include <string_view>
#include <unordered_map>

#include "import/onnx/nodes/branches.hpp"

namespace attacca::import {

std::vector<const onnx::NodeProto*> in_order(const Nodes& nodes) {
  std::unordered_map<std::string_view, int> makers;
  for (int i = 0; i < nodes.size(); ++i)
    for (const std::string& output : nodes[i].output())
      if (!output.empty()) makers.emplace(output, i);
  std::vector<std::vector<int>> readers(static_cast<size_t>(nodes.size()));
  std::vector<int> missing(readers.size(), 0);  // inputs whose nodes have no place yet
  for (int i = 0; i < nodes.size(); ++i)
    for_each_read_name(nodes[i], [&](const std::string& name) {
      const auto maker = makers.find(name);
      if (maker == makers.end()) return;
      readers[static_cast<size_t>(maker->second)].push_back(i);
      ++missing[static_cast<size_t>(i)];
    });
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < nodes.size(); ++i)
    if (missing[static_cast<size_t>(i)] == 0) ready.push(i);
  std::vector<const onnx::NodeProto*> ordered;
  while (!ready.empty()) {
    const int next = ready.top();
    ready.pop();
    ordered.push_back(&nodes[next]);
    for (const int reader : readers[static_cast<size_t>(next)])
      if (--missing[static_cast<size_t>(reader)] == 0) ready.push(reader);
  }
  for (int i = 0; i < nodes.size(); ++i)
    if (missing[static_cast<size_t>(i)] > 0) ordered.push_back(&nodes[i]);
  return ordered;
}

}  // namespace attacca::import
