#include "tune/tuner.hpp"

#include <filesystem>

#include "fmt/format.h"

#include "launch/unfused.hpp"
#include "launch/user_kernel.hpp"
#include "support/environment.hpp"
#include "support/files/paths.hpp"
#include "tune/rounds.hpp"
#include "tune/timer.hpp"

namespace attacca::tune {
namespace {

Result<Timer> make_timer(const TuneOptions& options) {
  const std::string program = worker_program();
  if (program.empty())
    return fail("no program to time candidates in", "tuning",
                "set ATTACCA_TUNE_WORKER to the path of `attacca`");
  return Timer({program, "tune-worker"}, {options.seconds_limit, options.silence_limit});
}

// The worker uses this process's device and cuBLASLt.
TimingRequest make_request(const launch::Toolbox& toolbox, const problem::ProblemText& problem,
                           std::vector<launch::Candidate> candidates, int rounds) {
  TimingRequest request{.problem = problem,
                        .candidates = std::move(candidates),
                        .rounds = rounds,
                        .device = toolbox.device().info().ordinal};
  if (const auto vendor = toolbox.vendor()) request.vendor = (*vendor)->path();
  if (!toolbox.bundle()) request.tools = toolbox.identity();
  return request;
}

}  // namespace

std::string worker_program() {
  if (std::string given = environment("ATTACCA_TUNE_WORKER"); !given.empty()) return given;
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path library = std::filesystem::path(own_path()).parent_path();
  for (const std::filesystem::path& candidate :
       {self, library / "../bin/attacca", library / "../cli/attacca",  // installed; in a build tree
        self.parent_path() / "attacca", self.parent_path() / "../bin/attacca",
        std::filesystem::path("/usr/bin/attacca"), std::filesystem::path("/usr/local/bin/attacca")})
    if (candidate.filename() == "attacca" && std::filesystem::exists(candidate, error))
      return candidate.string();
  return {};
}

Result<launch::Candidates> ways_to_fuse(const std::shared_ptr<launch::Toolbox>& toolbox,
                                        const problem::Problem& problem,
                                        const TemplateFilter& filter) {
  const gpu::DeviceInfo& device = toolbox->device().info();
  launch::Candidates fused;
  if (problem.kernel) {
    ATTACCA_TRY(fused, kernel_candidates(toolbox->user_kernels(), device, problem));
  } else {
    fused = fused_candidates(problem, toolbox->catalog(), device, filter.allow);
  }
  apply(filter, fused);
  return fused;
}

Result<double> time_unfused(const std::shared_ptr<launch::Toolbox>& toolbox,
                            const problem::ProblemText& text, const TuneOptions& options) {
  ATTACCA_TRY(const problem::Problem problem, problem::read_problem(text));
  ATTACCA_TRY(std::vector<launch::Candidate> unfused, unfused_candidates(toolbox, problem));
  const TimingRequest request = make_request(*toolbox, text, std::move(unfused), options.rounds);
  ATTACCA_TRY(Timer timer, make_timer(options));
  std::vector<Trial> trials = timer.time(request);
  sort_by_time(trials);
  if (!trials[0].seconds) return fail(trials[0].failure, "cuBLASLt", "run `attacca doctor`");
  return *trials[0].seconds;
}

Result<Tuned> tune_together(const std::shared_ptr<launch::Toolbox>& toolbox,
                            const std::vector<problem::ProblemText>& problems,
                            const std::vector<launch::Candidate>& apart,
                            std::vector<launch::Candidate> candidates, const TuneOptions& options) {
  ATTACCA_TRY(Timer timer, make_timer(options));
  candidates.insert(candidates.begin(), launch::Candidate{});
  const TieOrder order(candidates);
  TimingRequest request =
      make_request(*toolbox, problems[0], std::move(candidates), options.rounds);
  request.others.assign(problems.begin() + 1, problems.end());
  request.apart = apart;
  request.pace = Pace::Sustained;
  Tuned result;
  result.trials = timer.time(request);
  for (Trial& trial : result.trials) trial.final = true;
  sort_by_time(result.trials);
  const std::optional<Choice> choice = choose(result.trials, order);
  if (!choice || choice->unfused_seconds == 0)
    return fail("launches apart did not run: " + result.trials.back().failure, "tuning",
                "run `attacca doctor`");
  result.choice = *choice;
  return result;
}

Result<Tuned> tune(const std::shared_ptr<launch::Toolbox>& toolbox,
                   const problem::ProblemText& text, const TuneOptions& options) {
  ATTACCA_TRY(Timer timer, make_timer(options));
  ATTACCA_TRY(const problem::Problem problem, problem::read_problem(text));
  Tuned result;
  ATTACCA_TRY(launch::Candidates fused, ways_to_fuse(toolbox, problem, options.filter));
  result.excluded = std::move(fused.excluded);
  std::vector<launch::Candidate> first;
  if (problem.batch_invariant) {
    result.excluded.push_back({"unfused", std::string(launch::kVariantVendor)});
  } else if (auto unfused = unfused_candidates(toolbox, problem)) {
    first = *std::move(unfused);
    std::erase_if(first, [&](const launch::Candidate& candidate) {
      return candidate.algorithm >= options.most_algorithms;
    });
  } else {
    result.excluded.push_back({"unfused", unfused.error().what});
  }
  int templates = 0;
  for (launch::Candidate& candidate : fused.ranked) {
    if (templates++ < options.most_templates)
      first.push_back(std::move(candidate));
    else
      result.excluded.push_back({candidate.kernel, "ranked below those that were timed"});
  }
  if (options.modelled && !options.quick) add_once(first, *options.modelled);
  if (options.before) add_once(first, *options.before);
  const TieOrder order(first, options.before);
  TimingRequest request = make_request(*toolbox, text, {}, 0);
  const Stopwatch stopwatch = {
      .time =
          [&](std::vector<launch::Candidate> candidates, int rounds, Pace pace) {
            request.candidates = std::move(candidates);
            request.rounds = rounds;
            request.pace = pace;
            return timer.time(request);
          },
      .change_worker = [&] { timer.change_worker(); },
      .variants =
          [&](const launch::Candidate& candidate) {
            const templates::Template* kernel = toolbox->catalog().find(candidate.kernel);
            return kernel == nullptr
                       ? std::vector<launch::Candidate>()  // a user's kernel
                       : variants(candidate, *kernel, problem, toolbox->device().info());
          },
      .report =
          [&](double done, const std::string& what) {
            if (options.progress) options.progress(done, what);
          }};
  std::vector<Trial> trials = time_in_rounds(stopwatch, std::move(first), order, options);
  const std::optional<Choice> choice = choose(trials, order);
  if (!choice) {
    const std::string why = trials.empty() ? "there is none" : trials.front().failure;
    return fail("no candidate ran: " + why, "tuning",
                why == kTimeWasOver
                    ? "allow more seconds: building kernels takes longer on a busy machine"
                : why == kDeviceWasBusy ? "allow more seconds, or tune when they are done"
                                        : "run `attacca doctor`");
  }
  result.choice = *choice;
  result.choice.quick = options.quick;
  result.trials = std::move(trials);
  stopwatch.report(1, "done");
  return result;
}

}  // namespace attacca::tune
