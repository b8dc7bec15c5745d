#include "tune/worker.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <thread>

#include "gpu/driver/library.hpp"
#include "launch/legality.hpp"
#include "launch/prepare.hpp"
#include "launch/together.hpp"
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

using Runnables = std::vector<Result<std::unique_ptr<launch::Runnable>>>;

// Builds on all cores: most of a trial's time is the compilers'.
Runnables build_all(size_t count,
                    const std::function<Result<std::unique_ptr<launch::Runnable>>(size_t)>& make) {
  Runnables built(count);
  std::atomic<size_t> next = 0;
  const auto build = [&] {
    for (size_t i; (i = next++) < count;) built[i] = make(i);
  };
  std::vector<std::jthread> threads;
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  for (size_t i = 0; i < std::min(cores, count); ++i) threads.emplace_back(build);
  threads.clear();
  return built;
}

// One candidate for several problems, as TimingRequest::others explains.
Result<std::unique_ptr<launch::Runnable>> prepare_several(
    const std::shared_ptr<launch::Toolbox>& toolbox, const std::vector<problem::Problem>& problems,
    const TimingRequest& request, const launch::Candidate& candidate) {
  if (candidate.kind == launch::CandidateKind::Fused) {
    ATTACCA_TRY(
        const launch::Candidate resolved,
        launch::resolve(candidate, problems[0], toolbox->catalog(), toolbox->device().info()));
    return launch::make_together(toolbox, problems, resolved);
  }
  std::vector<std::unique_ptr<launch::Runnable>> runnables(problems.size());
  for (size_t i = 0; i < problems.size(); ++i) {
    ATTACCA_TRY(runnables[i], launch::prepare(toolbox, problems[i], request.apart[i]));
  }
  return launch::one_by_one(problems, std::move(runnables));
}

// Operands of all problems, which read one A.
struct SharedSets {
  std::vector<OperandSets> memory;
  std::vector<problem::Addresses> sets;

  static Result<SharedSets> make(const std::shared_ptr<launch::Toolbox>& toolbox,
                                 const std::vector<problem::Problem>& problems) {
    SharedSets made;
    for (const problem::Problem& problem : problems) {
      ATTACCA_TRY(OperandSets operands, OperandSets::make(toolbox, problem));
      made.memory.push_back(std::move(operands));
    }
    size_t count = made.memory[0].size();
    for (const OperandSets& each : made.memory) count = std::min(count, each.size());
    for (size_t set = 0; set < count; ++set) {
      std::vector<problem::Addresses> all;
      for (const OperandSets& each : made.memory) {
        all.push_back(each[set]);
        if (all.size() > 1) all.back().products[0].a = all[0].products[0].a;
      }
      made.sets.push_back(problem::one_after_another(all));
    }
    return made;
  }
};

Status serve(const TimingRequest& request, const std::shared_ptr<launch::Toolbox>& toolbox) {
  std::vector<problem::Problem> problems(1);
  ATTACCA_TRY(problems[0], problem::read_problem(request.problem));
  for (const problem::ProblemText& text : request.others) {
    ATTACCA_TRY(problems.emplace_back(), problem::read_problem(text));
  }
  const bool several = problems.size() > 1;
  const auto built = build_all(request.candidates.size(), [&](size_t i) {
    const launch::Candidate& candidate = request.candidates[i];
    return several ? prepare_several(toolbox, problems, request, candidate)
                   : launch::prepare(toolbox, problems[0], candidate);
  });
  if (request.rounds == 0) return {};
  ATTACCA_TRY(const SharedSets operands, SharedSets::make(toolbox, problems));
  const DeviceTurn turn(toolbox->device(), [] { say(json::Value::object().set("waiting", true)); });
  std::vector<Timed> timed;
  std::vector<size_t> which;
  for (size_t i = 0; i < built.size(); ++i) {
    say(json::Value::object().set("begin", i));
    if (!built[i]) {
      say_failed(i, built[i].error());
      continue;
    }
    auto made = Timed::make(toolbox, launches_of(**built[i], operands.sets));
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
  say(json::Value::object().set("begin", -1));
  const auto timed_rounds = times_in_turns(timed, request.rounds, request.pace);
  if (!timed_rounds && !toolbox->device().synchronize()) std::_Exit(kDeviceLost);
  ATTACCA_TRY(const auto& rounds, timed_rounds);
  const std::vector<double> seconds = typical_seconds(rounds);
  for (size_t i = 0; i < which.size(); ++i) {
    json::Value each = json::Value::array();
    for (const double once : rounds[i]) each.push(once);
    say(json::Value::object()
            .set("candidate", which[i])
            .set("seconds", seconds[i])
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

auto bad_request() {
  return fail("a timing request lacks a field or has a wrong one", "stdin");
}

Result<std::vector<launch::Candidate>> read_candidates(const json::Value& texts) {
  if (!texts.is<json::Value::Array>()) return bad_request();
  std::vector<launch::Candidate> candidates;
  for (const json::Value& text : texts.as<json::Value::Array>()) {
    if (!text.is<std::string>()) return bad_request();
    ATTACCA_TRY(candidates.emplace_back(), launch::parse_candidate(text.as<std::string>()));
  }
  return candidates;
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
  json::Value root = json::Value::object()
                         .set("problem", to_json(request.problem))
                         .set("candidates", candidates)
                         .set("rounds", request.rounds)
                         .set("device", request.device)
                         .set("pace", request.pace == Pace::Rested ? kRested : kSustained)
                         .set("vendor", request.vendor)
                         .set("tools", request.tools);
  if (!request.others.empty()) {
    json::Value others = json::Value::array(), apart = json::Value::array();
    for (const problem::ProblemText& text : request.others) others.push(to_json(text));
    for (const launch::Candidate& candidate : request.apart) apart.push(to_string(candidate));
    root.set("others", others).set("apart", apart);
  }
  return json::dump(root, -1);
}

Result<TimingRequest> read_request(const std::string& line) {
  ATTACCA_TRY(const json::Value root, json::parse(line, "timing request"));
  if (!root.is<json::Value::Object>()) return bad_request();
  TimingRequest request;
  auto problem = problem::problem_from_json(*member(root, "problem"));
  const json::Value& rounds = *member(root, "rounds");
  const json::Value& device = *member(root, "device");
  const json::Value& pace = *member(root, "pace");
  const json::Value& vendor = *member(root, "vendor");
  if (!problem || !rounds.is<int64_t>() || !device.is<int64_t>() || !pace.is<std::string>() ||
      (pace.as<std::string>() != kRested && pace.as<std::string>() != kSustained) ||
      !vendor.is<std::string>())
    return bad_request();
  request.problem = *std::move(problem);
  ATTACCA_TRY(request.candidates, read_candidates(*member(root, "candidates")));
  if (const json::Value* others = root.find("others")) {
    if (!others->is<json::Value::Array>()) return bad_request();
    for (const json::Value& each : others->as<json::Value::Array>()) {
      auto other = problem::problem_from_json(each);
      if (!other) return bad_request();
      request.others.push_back(*std::move(other));
    }
    ATTACCA_TRY(request.apart, read_candidates(*member(root, "apart")));
    if (request.apart.size() != request.others.size() + 1) return bad_request();
  }
  request.rounds = static_cast<int>(std::max<int64_t>(0, rounds.as<int64_t>()));
  request.device = static_cast<int>(device.as<int64_t>());
  request.pace = pace.as<std::string>() == kRested ? Pace::Rested : Pace::Sustained;
  request.vendor = vendor.as<std::string>();
  if (const json::Value* tools = root.find("tools")) {
    if (!tools->is<std::string>()) return bad_request();
    request.tools = tools->as<std::string>();
  }
  return request;
}

int serve_timings() {
  std::shared_ptr<launch::Toolbox> toolbox;
  std::string line, problem;  // of the last request
  while (std::getline(std::cin, line)) {
    const auto served = [&]() -> Status {
      ATTACCA_TRY(const TimingRequest request, read_request(line));
      if (!toolbox) {
        use_vendor(request.vendor);
        ATTACCA_TRY(toolbox, launch::Toolbox::open(request.device));
      }
      if (!request.tools.empty() && request.tools != toolbox->identity())
        return fail(fmt::format("the timing process has other tools: {} (wanted: {})",
                                toolbox->identity(), request.tools),
                    "tuning", "set ATTACCA_TUNE_WORKER to the path of this version's `attacca`");
      std::string text = json::dump(to_json(request.problem), -1);
      if (text != problem) toolbox->forget_kernels();
      problem = std::move(text);
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
