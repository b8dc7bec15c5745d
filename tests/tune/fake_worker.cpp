// A timing process without a device: a candidate's name says what it does for it.
//
//   fast, slow      times of 1e-6 and 1e-3 seconds
//   refuse          fails, and says so
//   crash           dies by a signal when it is begun
//   crash_build     dies by a signal before anything is begun
//   crash_late      dies when all others have their times
//   hang            never says anything again
//   chatter         writes lines without end
//   garbage         writes what is no JSON
//   endless         writes one line without end
//   quit            exits with 7 when it is begun
//   deaf            closes its output and stays
//   queue           waits for the device for ever
//   silent          is left out
//   error           the whole request fails
//
// Every request it hears is appended to the file in its first argument, one line of candidates; its
// process id to the file in its second argument when it starts.
#include <csignal>
#include <fstream>
#include <iostream>
#include <thread>
#include <unistd.h>

#include "launch/candidate.hpp"
#include "tune/worker.hpp"

namespace {

using attacca::launch::Candidate;
namespace launch = attacca::launch;

void say(const std::string& line) {
  std::cout << line << "\n" << std::flush;
}

void begin(const std::string& kind, size_t index) {
  say("{\"begin\": " + std::to_string(index) + "}");
  if (kind == "crash") {
    std::signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would exit
    std::raise(SIGSEGV);
  }
  if (kind == "quit") std::_Exit(7);
  if (kind == "hang") std::this_thread::sleep_for(std::chrono::hours(1));
  while (kind == "queue") {
    say("{\"waiting\": true}");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  if (kind == "garbage") say("Segmentation fault (core dumped)");
  while (kind == "chatter") say("{\"candidate\": 12345}");
  while (kind == "endless") std::cout << "x";
  if (kind == "deaf") {
    close(STDOUT_FILENO);
    close(STDIN_FILENO);
    std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

void answer(const std::string& kind, size_t index) {
  const std::string start = "{\"candidate\": " + std::to_string(index);
  if (kind == "fast") say(start + ", \"seconds\": 1e-6}");
  if (kind == "slow") say(start + ", \"seconds\": 1e-3}");
  if (kind == "refuse") say(start + ", \"failed\": \"not this one\"}");
}

void serve(const std::vector<launch::Candidate>& candidates) {
  for (const launch::Candidate& each : candidates)
    if (each.kernel == "crash_build") std::abort();
  for (size_t i = 0; i < candidates.size(); ++i) begin(candidates[i].kernel, i);
  for (size_t i = 0; i < candidates.size(); ++i) answer(candidates[i].kernel, i);
  for (const launch::Candidate& each : candidates) {
    if (each.kernel == "crash_late") std::abort();
    if (each.kernel == "error") return say("{\"error\": \"no such device\"}");
  }
  say("{\"done\": true}");
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 2) std::ofstream(arguments[2], std::ios::app) << getpid() << "\n";
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto request = attacca::tune::read_request(line);
    if (!request) {
      say("{\"error\": \"" + request.error().what + "\"}");
      continue;
    }
    if (count > 1) {
      std::ofstream log(arguments[1], std::ios::app);
      for (const launch::Candidate& each : request->candidates) log << each.kernel << " ";
      log << "\n";
    }
    serve(request->candidates);
  }
}
