#include "tune/worker.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "gpu/driver/library.hpp"
#include "launch/prepare.hpp"
#include "problem/problem_json.hpp"
#include "support/immortal.hpp"
#include "support/text/json.hpp"
#include "tune/device_turn.hpp"
#include "tune/measure.hpp"

namespace attacca::tune {
namespace {

constexpr int kDeviceLost = 3;
constexpr const char *kRested = "rested", *kSustained = "sustained";

void say(const json::Value& line) {
  const std::string text = json::dump(line, -1) + "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void say_failed(size_t candidate, const Error& error) {
  const bool named = error.what.find(error.where) != std::string::npos;
  say(json::Value::object()
          .set("candidate", candidate)
          .set("failed", named ? error.what : error.where + ": " + error.what));
}

// Builds on all cores: most of a trial's time is the compilers'.
std::vector<Result<std::unique_ptr<launch::Runnable>>> build_all(
    const std::shared_ptr<launch::Toolbox>& toolbox, const problem::Problem& problem,
    const std::vector<launch::Candidate>& candidates) {
  std::vector<Result<std::unique_ptr<launch::Runnable>>> built(candidates.size());
  std::atomic<size_t> next = 0;
  const auto build = [&] {
    for (size_t i; (i = next++) < candidates.size();)
      built[i] = launch::prepare(toolbox, problem, candidates[i]);
  };
  std::vector<std::jthread> threads;
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  for (size_t i = 0; i < std::min(cores, candidates.size()); ++i) threads.emplace_back(build);
  threads.clear();
  return built;
}

Status serve(const TimingRequest& request, const std::shared_ptr<launch::Toolbox>& toolbox) {
  ATTACCA_TRY(const problem::Problem problem, problem::read_problem(request.problem));
  const auto built = build_all(toolbox, problem, request.candidates);
  if (request.rounds == 0) return {};
  ATTACCA_TRY(const OperandSets operands, OperandSets::make(toolbox, problem));
  const DeviceTurn turn(toolbox->device());
  std::vector<Timed> timed;
  std::vector<size_t> which;
  for (size_t i = 0; i < built.size(); ++i) {
    say(json::Value::object().set("begin", i));
    if (!built[i]) {
      say_failed(i, built[i].error());
      continue;
    }
    auto made = Timed::make(toolbox, launches_of(**built[i], operands));
    if (!made) {
      say_failed(i, made.error());
      // A fault on the device makes it unusable for this process. The caller starts another
      // process.
      if (!toolbox->device().synchronize()) std::_Exit(kDeviceLost);
      continue;
    }
    timed.push_back(*std::move(made));
    which.push_back(i);
  }
  ATTACCA_TRY(const auto rounds, times_in_turns(timed, request.rounds, request.pace));
  for (size_t i = 0; i < which.size(); ++i) {
    json::Value each = json::Value::array();
    for (const double seconds : rounds[i]) each.push(seconds);
    say(json::Value::object()
            .set("candidate", which[i])
            .set("seconds", median(rounds[i]))
            .set("rounds", each));
  }
  return {};
}

// If that file cannot be opened here, the library is searched for as usual.
void use_vendor(const std::string& path) {
  if (path.empty()) return;
  setenv(gpu::kCublasLtLibrary.override_variable, path.c_str(), 1);
  if (!gpu::Library::open(gpu::kCublasLtLibrary)) unsetenv(gpu::kCublasLtLibrary.override_variable);
}

const json::Value* member(const json::Value& value, std::string_view key) {
  const json::Value* found = value.find(key);
  return found == nullptr ? &immortal([] { return json::Value(); }) : found;
}

}  // namespace

std::string write_request(const TimingRequest& request) {
  json::Value candidates = json::Value::array();
  for (const launch::Candidate& candidate : request.candidates)
    candidates.push(to_string(candidate));
  return json::dump(json::Value::object()
                        .set("problem", to_json(request.problem))
                        .set("candidates", candidates)
                        .set("rounds", request.rounds)
                        .set("device", request.device)
                        .set("pace", request.pace == Pace::Rested ? kRested : kSustained)
                        .set("vendor", request.vendor),
                    -1);
}

Result<TimingRequest> read_request(const std::string& line) {
  ATTACCA_TRY(const json::Value root, json::parse(line, "timing request"));
  const auto bad = [] {
    return fail("a timing request lacks a field or has a wrong one", "stdin");
  };
  if (!root.is<json::Value::Object>()) return bad();
  TimingRequest request;
  auto problem = problem::problem_from_json(*member(root, "problem"));
  const json::Value& candidates = *member(root, "candidates");
  const json::Value& rounds = *member(root, "rounds");
  const json::Value& device = *member(root, "device");
  const json::Value& pace = *member(root, "pace");
  const json::Value& vendor = *member(root, "vendor");
  if (!problem || !candidates.is<json::Value::Array>() || !rounds.is<int64_t>() ||
      !device.is<int64_t>() || !pace.is<std::string>() ||
      (pace.as<std::string>() != kRested && pace.as<std::string>() != kSustained) ||
      !vendor.is<std::string>())
    return bad();
  request.problem = *std::move(problem);
  for (const json::Value& text : candidates.as<json::Value::Array>()) {
    if (!text.is<std::string>()) return bad();
    ATTACCA_TRY(launch::Candidate candidate, launch::parse_candidate(text.as<std::string>()));
    request.candidates.push_back(std::move(candidate));
  }
  request.rounds = static_cast<int>(std::max<int64_t>(0, rounds.as<int64_t>()));
  request.device = static_cast<int>(device.as<int64_t>());
  request.pace = pace.as<std::string>() == kRested ? Pace::Rested : Pace::Sustained;
  request.vendor = vendor.as<std::string>();
  return request;
}

int serve_timings() {
  std::shared_ptr<launch::Toolbox> toolbox;
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto served = [&]() -> Status {
      ATTACCA_TRY(const TimingRequest request, read_request(line));
      if (!toolbox) {
        use_vendor(request.vendor);
        ATTACCA_TRY(toolbox, launch::Toolbox::open(request.device));
      }
      return serve(request, toolbox);
    }();
    if (served) {
      say(json::Value::object().set("done", true));
    } else {
      say(json::Value::object().set("error", to_string(served.error())));
    }
  }
  return 0;
}

}  // namespace attacca::tune
