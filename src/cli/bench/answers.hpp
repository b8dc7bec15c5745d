// Commands that answer each line of standard input with a line of JSON.
#pragma once

#include <cstdio>
#include <iostream>
#include <string>

#include "fmt/format.h"

#include "support/text/json.hpp"

namespace attacca::cli {

json::Value list_of(const auto& values) {
  json::Value list = json::Value::array();
  for (const auto& value : values) list.push(value);
  return list;
}

// Prints `head`, then answer(line) for each line until the input ends, each at once.
template <class Answer>
void answer_lines(const json::Value& head, const Answer& answer) {
  const auto say = [](const json::Value& line) {
    fmt::print("{}\n", json::dump(line, -1));
    std::fflush(stdout);
  };
  say(head);
  for (std::string line; std::getline(std::cin, line);) say(answer(line));
}

}  // namespace attacca::cli
