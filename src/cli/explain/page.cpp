#include "cli/explain/page.hpp"

#include <cerrno>
#include <cstdio>
#include <memory>
#include <vector>

#include "fmt/format.h"

#include "fuse/explain/common.hpp"
#include "fuse/explain/explain.hpp"
#include "fuse/explain/overview.hpp"
#include "support/text/escaped.hpp"

namespace attacca::cli {
namespace {

constexpr size_t kMostPictures = 200;  // of regions; drawing one takes milliseconds

constexpr std::string_view kHead = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font-family: sans-serif; margin: 2em; }}
.picture {{ overflow: auto; max-height: 80vh; border: 1px solid #ccc; }}
details {{ margin: 0.3em 0 0.3em 1em; }}
summary {{ cursor: pointer; }}
pre {{ white-space: pre-wrap; }}
</style>
</head>
<body>
<h1>{title}</h1>
)";

std::string html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

// The <svg> elements of documents that stand one after the other.
std::vector<std::string> elements(const std::string& documents) {
  constexpr std::string_view kEnd = "</svg>";
  std::vector<std::string> found;
  for (size_t at = 0; (at = documents.find("<svg", at)) != std::string::npos;) {
    const size_t end = documents.find(kEnd, at);
    if (end == std::string::npos) break;
    found.push_back(documents.substr(at, end + kEnd.size() - at));
    at = end;
  }
  return found;
}

class Page {
 public:
  explicit Page(const fuse::Partition& partition)
      : partition_(partition), levels_(fuse::levels(partition)) {}

  Result<std::string> run() {
    ATTACCA_TRY_VOID(draw());
    out_ =
        fmt::format(fmt::runtime(kHead), fmt::arg("title", html(escaped(partition_.graph.name))));
    out_ += fmt::format("<p>{} ops in {} regions</p>\n<div class=\"picture\">{}</div>\n",
                        partition_.graph.size(), partition_.regions.size(), pictures_[0]);
    size_t picture = 1;
    for (const fuse::Level& level : levels_) add(level, picture);
    return std::move(out_) + "</body>\n</html>\n";
  }

 private:
  // The overview, then a region each, in the order of the page.
  Status draw() {
    std::string dot = fuse::overview_dot(partition_);
    size_t wanted = 1;
    for (const fuse::Level& level : levels_)
      for (size_t i = level.first; i < level.first + level.length && wanted <= kMostPictures;
           ++i, ++wanted)
        dot += fuse::region_dot(partition_, i);
    ATTACCA_TRY(const std::string documents, drawn(dot, "--html"));
    pictures_ = elements(documents);
    if (pictures_.size() == wanted) return {};
    return fail(fmt::format("dot drew {} of {} pictures", pictures_.size(), wanted), "--html",
                "install Debian's graphviz");
  }

  void add(const fuse::Level& level, size_t& picture) {
    if (level.times > 1)
      out_ += fmt::format(
          "<details class=\"level\"><summary>regions {} to {}: {} times the same {}</summary>\n",
          level.first + 1, level.end(), level.times,
          level.length == 1 ? "region" : fmt::format("{} regions", level.length));
    for (size_t i = level.first; i < level.first + level.length; ++i) {
      const fuse::Region& region = partition_.regions[i];
      out_ += fmt::format(
          "<details id=\"region-{0}\"><summary>region {0}: {1} ({2})</summary>\n<pre>{3}</pre>\n",
          i + 1, fuse::kind_name(region.kind), fuse::ops_text(partition_.graph, region),
          html(fuse::region_text(partition_, i)));
      if (picture < pictures_.size())
        out_ += fmt::format("<div class=\"picture\">{}</div>\n", pictures_[picture++]);
      out_ += "</details>\n";
    }
    if (level.times > 1) out_ += "</details>\n";
  }

  const fuse::Partition& partition_;
  std::vector<fuse::Level> levels_;
  std::vector<std::string> pictures_;
  std::string out_;
};

}  // namespace

Result<std::string> drawn(const std::string& dot, const std::string& option) {
  const Error failed = {"cannot draw", option,
                        "install Debian's graphviz and check that the disk has free space"};
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> input(std::tmpfile(), std::fclose);
  if (!input || std::fwrite(dot.data(), 1, dot.size(), input.get()) != dot.size() ||
      std::fflush(input.get()) != 0)
    return tl::make_unexpected(failed);
  std::rewind(input.get());
  const std::string command = fmt::format("dot -Tsvg <&{} 2>/dev/null", fileno(input.get()));
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return tl::make_unexpected(failed);
  std::string svg;
  char buffer[65536];
  while (const size_t count = std::fread(buffer, 1, sizeof buffer, pipe)) svg.append(buffer, count);
  // A program that ignores SIGCHLD is told no exit status.
  const int status = pclose(pipe);
  const bool untold = status == -1 && errno == ECHILD;
  if (status != 0 && !(untold && !svg.empty())) return tl::make_unexpected(failed);
  return svg;
}

Result<std::string> explanation_page(const fuse::Partition& partition) {
  return Page(partition).run();
}

}  // namespace attacca::cli
