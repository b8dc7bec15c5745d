#include "api/report_page.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "fmt/format.h"

#include "support/text/json.hpp"

namespace attacca::api {
namespace {

constexpr std::string_view kFormat = "attacca.report/1";

struct Bar {
  std::string label;
  double seconds = 0;
};

struct Region {
  std::string name, detail, verdict, saved;
  std::vector<Bar> times;
  std::vector<std::string> reasons;
};

struct Table {
  std::string title;
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
};

struct Report {
  std::string title;
  std::vector<std::string> summary;
  std::vector<Table> tables;
  std::vector<Region> regions;
};

// ---- Reading

// The members of one JSON object, by type; errors name the member.
class Reader {
 public:
  Reader(const json::Value& object, const std::string& source) : object_(object), source_(source) {}

  Result<std::string> text(std::string_view key) const { return get<std::string>(key); }
  Result<json::Value::Array> list(std::string_view key) const {
    return get<json::Value::Array>(key);
  }
  Result<double> number(std::string_view key) const {
    const json::Value* member = object_.find(key);
    if (member == nullptr || !member->is_number()) return wrong(key);
    return member->number();
  }
  Result<std::vector<std::string>> texts(std::string_view key) const {
    ATTACCA_TRY(const json::Value::Array values, list(key));
    return texts(key, values);
  }
  Result<std::vector<std::vector<std::string>>> lines(std::string_view key) const {
    ATTACCA_TRY(const json::Value::Array values, list(key));
    std::vector<std::vector<std::string>> found;
    for (const json::Value& value : values) {
      if (!value.is<json::Value::Array>()) return wrong(key);
      ATTACCA_TRY(std::vector<std::string> line, texts(key, value.as<json::Value::Array>()));
      found.push_back(std::move(line));
    }
    return found;
  }
  bool has(std::string_view key) const { return object_.find(key) != nullptr; }
  double number_or_zero(std::string_view key) const { return number(key).value_or(0); }

 private:
  Result<std::vector<std::string>> texts(std::string_view key,
                                         const json::Value::Array& values) const {
    std::vector<std::string> found;
    for (const json::Value& value : values) {
      if (!value.is<std::string>()) return wrong(key);
      found.push_back(value.as<std::string>());
    }
    return found;
  }
  template <class T>
  Result<T> get(std::string_view key) const {
    const json::Value* member = object_.find(key);
    if (member == nullptr || !member->is<T>()) return wrong(key);
    return member->as<T>();
  }
  tl::unexpected<Error> wrong(std::string_view key) const {
    return fail(fmt::format("no {} of the type that a report has", key), source_,
                "give what `attacca tune --json` prints, or a report of attacca.torch");
  }

  const json::Value& object_;
  const std::string& source_;
};

Result<Region> read_region(const Reader& json, const std::string& source) {
  Region region;
  ATTACCA_TRY(region.name, json.text("name"));
  ATTACCA_TRY(region.detail, json.text("detail"));
  ATTACCA_TRY(region.verdict, json.text("verdict"));
  ATTACCA_TRY(region.saved, json.text("saved"));
  ATTACCA_TRY(region.reasons, json.texts("reasons"));
  ATTACCA_TRY(const json::Value::Array times, json.list("times"));
  for (const json::Value& each : times) {
    const Reader time(each, source);
    Bar bar;
    ATTACCA_TRY(bar.label, time.text("label"));
    ATTACCA_TRY(bar.seconds, time.number("seconds"));
    region.times.push_back(std::move(bar));
  }
  return region;
}

Result<Table> read_table(const Reader& json) {
  Table table;
  ATTACCA_TRY(table.title, json.text("title"));
  ATTACCA_TRY(table.head, json.texts("head"));
  ATTACCA_TRY(table.rows, json.lines("rows"));
  return table;
}

Result<Report> read_report(const Reader& json, const std::string& source) {
  Report report;
  ATTACCA_TRY(report.title, json.text("title"));
  ATTACCA_TRY(report.summary, json.texts("summary"));
  ATTACCA_TRY(const json::Value::Array regions, json.list("regions"));
  for (const json::Value& each : regions) {
    ATTACCA_TRY(Region region, read_region(Reader(each, source), source));
    report.regions.push_back(std::move(region));
  }
  if (!json.has("tables")) return report;
  ATTACCA_TRY(const json::Value::Array tables, json.list("tables"));
  for (const json::Value& each : tables) {
    ATTACCA_TRY(Table table, read_table(Reader(each, source)));
    report.tables.push_back(std::move(table));
  }
  return report;
}

bool is_unfused(const std::string& candidate) {
  return candidate.starts_with("unfused");
}

std::string microseconds(double seconds) {
  return fmt::format("{:.2f} us", seconds * 1e6);
}

// The fastest fused candidate's time in microseconds; 0: none ran.
Result<double> fastest_fused(const json::Value::Array& candidates, const std::string& source) {
  double fastest = 0;
  for (const json::Value& each : candidates) {
    const Reader candidate(each, source);
    ATTACCA_TRY(const std::string name, candidate.text("candidate"));
    const double us = candidate.number_or_zero("us");
    if (us > 0 && !is_unfused(name) && (fastest == 0 || us < fastest)) fastest = us;
  }
  return fastest;
}

// "wgmma_a and 3 more: REASON" for each reason of what was excluded or failed.
Result<std::vector<std::string>> refusals(const json::Value::Array& excluded,
                                          const json::Value::Array& candidates,
                                          const std::string& source) {
  std::vector<std::pair<std::string, std::vector<std::string>>> by_reason;
  const auto add = [&](const std::string& name, const std::string& reason) {
    const auto known = std::find_if(by_reason.begin(), by_reason.end(),
                                    [&](const auto& other) { return other.first == reason; });
    if (known == by_reason.end())
      by_reason.push_back({reason, {name}});
    else
      known->second.push_back(name);
  };
  for (const json::Value& each : excluded) {
    const Reader entry(each, source);
    ATTACCA_TRY(const std::string name, entry.text("template"));
    ATTACCA_TRY(const std::string reason, entry.text("reason"));
    add(name, reason);
  }
  for (const json::Value& each : candidates) {
    const Reader entry(each, source);
    ATTACCA_TRY(const std::string name, entry.text("candidate"));
    if (const auto failure = entry.text("failed")) add(name, *failure);
  }
  std::vector<std::string> texts;
  for (const auto& [reason, names] : by_reason)
    texts.push_back(names.size() == 1
                        ? fmt::format("{}: {}", names[0], reason)
                        : fmt::format("{} and {} more: {}", names[0], names.size() - 1, reason));
  return texts;
}

Result<Region> read_tuned(const Reader& row, const std::string& sizes, const std::string& source) {
  Region region;
  ATTACCA_TRY(const double number, row.number("region"));
  ATTACCA_TRY(const std::string winner, row.text("winner"));
  ATTACCA_TRY(const json::Value::Array candidates, row.list("candidates"));
  ATTACCA_TRY(const json::Value::Array excluded, row.list("excluded"));
  region.name = fmt::format("region {:.0f}{}", number, sizes);
  region.detail = winner;
  region.verdict = is_unfused(winner) ? "unfused" : "fused";
  ATTACCA_TRY(region.reasons, refusals(excluded, candidates, source));
  const double us = row.number_or_zero("us"), unfused = row.number_or_zero("unfused_us");
  ATTACCA_TRY(double fused, fastest_fused(candidates, source));
  if (us > 0 && !is_unfused(winner)) fused = us;
  const bool measured = us > 0;
  const std::string expected = measured ? "" : "expected, ";
  if (!measured) fused = is_unfused(winner) ? 0 : row.number_or_zero("expected_us");
  const double other = measured ? unfused : row.number_or_zero("expected_unfused_us");
  if (fused > 0) region.times.push_back({expected + "fused", fused * 1e-6});
  if (other > 0) region.times.push_back({expected + "unfused", other * 1e-6});
  if (!is_unfused(winner) && fused > 0 && other > fused)
    region.saved = microseconds((other - fused) * 1e-6) + " a call";
  return region;
}

Result<Report> read_tuning(const Reader& json, const std::string& source) {
  Report report;
  ATTACCA_TRY(const std::string file, json.text("file"));
  ATTACCA_TRY(const std::string device, json.text("device"));
  ATTACCA_TRY(const std::string mode, json.text("mode"));
  ATTACCA_TRY(const json::Value::Array rows, json.list("tuned"));
  report.title = "Tuning of " + file;
  size_t fused = 0;
  for (const json::Value& row : rows) {
    std::string sizes;
    if (const json::Value* dims = row.find("dims"); dims && dims->is<json::Value::Object>())
      for (const auto& [name, size] : dims->as<json::Value::Object>())
        if (size.is_number()) sizes += fmt::format(", {}={:.0f}", name, size.number());
    ATTACCA_TRY(Region region, read_tuned(Reader(row, source), sizes, source));
    fused += region.verdict == "fused";
    report.regions.push_back(std::move(region));
  }
  report.summary = {fmt::format("{}, mode {}", device, mode),
                    fmt::format("{} of {} products are fused", fused, rows.size())};
  return report;
}

// ---- Writing

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

constexpr const char* kHead = R"html(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --text: light-dark(#1c2126, #e4e7ea);
  --back: light-dark(#ffffff, #15181b); --line: light-dark(#d8dde2, #333a40);
  --soft: light-dark(#5c6670, #9aa4ad); --fused: light-dark(#1f7a4d, #4cc38a);
  --unfused: light-dark(#9aa5b1, #66717c); --inductor: light-dark(#4a6fa5, #7aa2dd); }}
body {{ font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
h1 {{ font-size: 1.5rem; margin: 0; }}
h2 {{ font-size: 1.1rem; margin: 2rem 0 0; }}
section {{ border-top: 1px solid var(--line); padding: .8rem 0; }}
h3 {{ font-size: 1rem; margin: 0; overflow-wrap: anywhere; }}
h3 span {{ font-weight: 400; color: var(--soft); }}
.fused h3 span {{ color: var(--fused); }}
code, pre {{ font: 13px/1.4 ui-monospace, monospace; }}
pre {{ margin: .2rem 0 .4rem; white-space: pre-wrap; overflow-wrap: anywhere; }}
.time {{ display: grid; grid-template-columns: 9rem 1fr 7rem; gap: .6rem; align-items: center; }}
.time b {{ font-weight: 400; color: var(--soft); }}
.time i {{ display: block; height: .8rem; background: var(--inductor); border-radius: 2px; }}
.time i.fused {{ background: var(--fused); }}
.time i.unfused {{ background: var(--unfused); }}
.time u {{ text-decoration: none; text-align: right; font-variant-numeric: tabular-nums; }}
table {{ border-collapse: collapse; margin: .4rem 0 0; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .1rem .6rem; border-bottom: 1px solid var(--line); text-align: right; }}
th:first-child, td:first-child {{ text-align: left; padding-left: 0; }}
th {{ font-weight: 400; color: var(--soft); vertical-align: bottom; }}
p, ul {{ margin: .4rem 0 0; }}
li:target, section:target {{ outline: 2px solid var(--inductor); outline-offset: 4px; }}
a {{ color: inherit; }}
ol li {{ margin: .4rem 0; overflow-wrap: anywhere; }}
</style>
</head>
<body>
<h1>{title}</h1>
)html";

// The colour of a bar by its label.
std::string_view kind_of(std::string_view label) {
  return label.ends_with("unfused") ? "unfused" : label.ends_with("fused") ? "fused" : "other";
}

// The length of a bar in percent.
double share(double seconds, double longest) {
  return seconds > 0 && std::isfinite(longest) ? 100 * seconds / longest : 0;
}

std::string bars(const std::vector<Bar>& times) {
  double longest = 0;
  for (const Bar& bar : times) longest = std::max(longest, bar.seconds);
  std::string html;
  for (const Bar& bar : times)
    html += fmt::format(
        "<div class=\"time\"><b>{}</b><i class=\"{}\" style=\"width: {:.1f}%\"></i>"
        "<u>{}</u></div>\n",
        escaped(bar.label), kind_of(bar.label), share(bar.seconds, longest),
        microseconds(bar.seconds));
  return html;
}

// Each reason once, numbered in the order of its first region, with the regions that have it.
class Reasons {
 public:
  // The link to a reason of a region, whose own link is given.
  std::string link_to(const std::string& reason, std::string region) {
    const auto [at, fresh] = numbers_.try_emplace(reason, reasons_.size() + 1);
    if (fresh) reasons_.push_back({reason, {}});
    reasons_[at->second - 1].regions.push_back(std::move(region));
    return fmt::format("<a href=\"#reason-{0}\">reason {0}</a>", at->second);
  }

  std::string html() const {
    if (reasons_.empty()) return {};
    std::string html = "<h2>Reasons</h2>\n<ol>\n";
    for (size_t i = 0; i < reasons_.size(); ++i)
      html += fmt::format("<li id=\"reason-{}\">{} ({})</li>\n", i + 1, escaped(reasons_[i].text),
                          fmt::join(reasons_[i].regions, ", "));
    return html + "</ol>\n";
  }

 private:
  struct Reason {
    std::string text;
    std::vector<std::string> regions;
  };
  std::map<std::string, size_t> numbers_;
  std::vector<Reason> reasons_;
};

std::string section(const Region& region, size_t number, Reasons& reasons) {
  std::string html = fmt::format(
      "<section id=\"region-{}\" class=\"{}\">\n<h3>{} <span>{}</span></h3>\n", number,
      region.verdict == "fused" ? "fused" : "left", escaped(region.name), escaped(region.verdict));
  if (!region.detail.empty()) html += fmt::format("<pre>{}</pre>\n", escaped(region.detail));
  html += bars(region.times);
  std::vector<std::string> links;
  for (const std::string& reason : region.reasons)
    links.push_back(reasons.link_to(
        reason, fmt::format("<a href=\"#region-{}\">{}</a>", number, escaped(region.name))));
  if (!region.saved.empty() || !links.empty())
    html +=
        fmt::format("<p>{}{}{}</p>\n", region.saved.empty() ? "" : "saved " + escaped(region.saved),
                    region.saved.empty() || links.empty() ? "" : "; ", fmt::join(links, ", "));
  return html + "</section>\n";
}

std::string table_row(const std::vector<std::string>& cells, std::string_view tag) {
  std::string html = "<tr>";
  for (const std::string& cell : cells) html += fmt::format("<{0}>{1}</{0}>", tag, escaped(cell));
  return html + "</tr>\n";
}

std::string section(const Table& table) {
  std::string html =
      fmt::format("<h2>{}</h2>\n<table>\n{}", escaped(table.title), table_row(table.head, "th"));
  for (const std::vector<std::string>& row : table.rows) html += table_row(row, "td");
  return html + "</table>\n";
}

std::string write(const Report& report) {
  std::string html = fmt::format(kHead, fmt::arg("title", escaped(report.title)));
  if (!report.summary.empty()) {
    html += "<ul>\n";
    for (const std::string& line : report.summary)
      html += fmt::format("<li>{}</li>\n", escaped(line));
    html += "</ul>\n";
  }
  for (const Table& table : report.tables) html += section(table);
  html += "<h2>Regions</h2>\n";
  Reasons reasons;
  for (size_t i = 0; i < report.regions.size(); ++i)
    html += section(report.regions[i], i + 1, reasons);
  return html + reasons.html() + "</body>\n</html>\n";
}

}  // namespace

Result<std::string> report_page(std::string_view text, const std::string& source) {
  ATTACCA_TRY(const json::Value json, json::parse(text, source));
  const json::Value* format = json.find("format");
  const bool is_report = format != nullptr && *format == json::Value(kFormat);
  const Reader reader(json, source);
  ATTACCA_TRY(const Report report,
              is_report ? read_report(reader, source) : read_tuning(reader, source));
  return write(report);
}

}  // namespace attacca::api
