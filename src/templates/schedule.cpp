#include "templates/schedule.hpp"

#include <utility>

namespace attacca::templates {
namespace {

using enum Schedule;

constexpr std::pair<std::string_view, Schedule> kSchedules[] = {
    {"cooperative", Cooperative}, {"pingpong", Pingpong}, {"shared_tail", SharedTail},
    {"streaming", Streaming},     {"dot", Dot},           {"multistage", Multistage},
    {"elementwise", Elementwise}, {"chunks", Chunks},
};

}  // namespace

std::optional<Schedule> parse_schedule(std::string_view text) {
  for (const auto& [name, schedule] : kSchedules)
    if (name == text) return schedule;
  return std::nullopt;
}

}  // namespace attacca::templates
