#include "cli/run/profile.hpp"

#include <algorithm>
#include <map>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "epilogue/epilogue.hpp"
#include "fuse/explain/common.hpp"
#include "tune/measure.hpp"

namespace attacca::cli {
namespace {

constexpr size_t kRows = 30;       // of a table on a screen
constexpr size_t kOpsWidth = 100;  // characters

double sum_of(const std::vector<run::RegionTime>& round) {
  double sum = 0;
  for (const run::RegionTime& each : round) sum += each.seconds;
  return sum;
}

Profile::Region describe(const fuse::Region& region, const fuse::Partition& partition) {
  Profile::Region made;
  made.number = static_cast<size_t>(&region - partition.regions.data()) + 1;
  made.kind = fuse::kind_name(region.kind);
  made.ops = fuse::ops_text(partition.graph, region);
  for (const ir::Value output : region.outputs)
    made.outputs.push_back(fmt::format("{}: {}", epilogue::display_name(partition.graph, output),
                                       to_string(partition.graph.type(output))));
  return made;
}

template <class Rows>
void sort_by_time(Rows& rows) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
}

std::string shortened(const std::string& text) {
  return text.size() <= kOpsWidth ? text : text.substr(0, kOpsWidth - 4) + " ...";
}

// "   123.4  45.1%".
std::string time_columns(double seconds, double all) {
  return fmt::format("{:>10.1f} {:>5.1f}%", seconds * 1e6, all > 0 ? 100 * seconds / all : 0);
}

template <class Rows, class Line>
std::string table(const Rows& rows, double all, const Line& line) {
  std::string text;
  double rest = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i < kRows)
      text += fmt::format("{}  {}\n", time_columns(rows[i].seconds, all), line(rows[i]));
    else
      rest += rows[i].seconds;
  }
  if (rows.size() > kRows)
    text += fmt::format("{}  {} more\n", time_columns(rest, all), rows.size() - kRows);
  return text;
}

}  // namespace

Profile profile_of(const std::vector<std::vector<run::RegionTime>>& rounds,
                   const fuse::Partition& partition) {
  Profile profile;
  profile.rounds = rounds.size();
  std::map<const fuse::Region*, std::vector<double>> times;  // a sum for each round
  for (size_t round = 0; round < rounds.size(); ++round)
    for (const run::RegionTime& each : rounds[round]) {
      auto& sums = times[each.region];
      sums.resize(rounds.size());
      sums[round] += each.seconds;
    }
  std::map<std::string, Profile::Ops> ops;
  for (auto& [region, sums] : times) {
    Profile::Region made = describe(*region, partition);
    made.seconds = tune::median(std::move(sums));
    Profile::Ops& same = ops.try_emplace(made.ops, Profile::Ops{made.ops, 0, 0}).first->second;
    ++same.regions;
    same.seconds += made.seconds;
    profile.seconds += made.seconds;
    profile.regions.push_back(std::move(made));
  }
  for (auto& [name, each] : ops) profile.ops.push_back(std::move(each));
  sort_by_time(profile.regions);
  sort_by_time(profile.ops);
  auto ordered = rounds;
  std::sort(ordered.begin(), ordered.end(),
            [](const auto& a, const auto& b) { return sum_of(a) < sum_of(b); });
  profile.typical = std::move(ordered[ordered.size() / 2]);
  return profile;
}

std::string to_text(const Profile& profile) {
  std::string text = fmt::format("\nprofile: medians of {} rounds; {} regions take {:.1f} us\n",
                                 profile.rounds, profile.regions.size(), profile.seconds * 1e6);
  text += "        us  share  region\n";
  text += table(profile.regions, profile.seconds, [](const Profile::Region& each) {
    return fmt::format("{}: {} ({})", each.number, each.kind, shortened(each.ops));
  });
  text += "        us  share  regions of the same ops\n";
  text += table(profile.ops, profile.seconds, [](const Profile::Ops& each) {
    return fmt::format("{} x {}", each.regions, shortened(each.ops));
  });
  return text;
}

json::Value to_json(const Profile& profile) {
  json::Value regions = json::Value::array(), ops = json::Value::array();
  for (const Profile::Region& each : profile.regions) {
    json::Value outputs = json::Value::array();
    for (const std::string& output : each.outputs) outputs.push(output);
    regions.push(json::Value::object()
                     .set("region", each.number)
                     .set("kind", each.kind)
                     .set("ops", each.ops)
                     .set("outputs", std::move(outputs))
                     .set("us", each.seconds * 1e6));
  }
  for (const Profile::Ops& each : profile.ops)
    ops.push(json::Value::object()
                 .set("ops", each.ops)
                 .set("regions", each.regions)
                 .set("us", each.seconds * 1e6));
  return json::Value::object()
      .set("rounds", profile.rounds)
      .set("us", profile.seconds * 1e6)
      .set("regions", std::move(regions))
      .set("ops", std::move(ops));
}

json::Value trace_json(const Profile& profile, const fuse::Partition& partition,
                       const std::string& process) {
  json::Value events = json::Value::array();
  events.push(json::Value::object()
                  .set("name", "process_name")
                  .set("ph", "M")
                  .set("pid", 1)
                  .set("args", json::Value::object().set("name", process)));
  for (const run::RegionTime& each : profile.typical) {
    const Profile::Region region = describe(*each.region, partition);
    events.push(
        json::Value::object()
            .set("name", fmt::format("{}: {}", region.number, region.ops))
            .set("cat", region.kind)
            .set("ph", "X")
            .set("ts", each.begin * 1e6)
            .set("dur", each.seconds * 1e6)
            .set("pid", 1)
            .set("tid", 1)
            .set("args", json::Value::object()
                             .set("region", region.number)
                             .set("outputs", fmt::format("{}", fmt::join(region.outputs, ", ")))));
  }
  return json::Value::object().set("displayTimeUnit", "ms").set("traceEvents", std::move(events));
}

}  // namespace attacca::cli
