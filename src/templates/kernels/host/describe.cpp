// describe DIR: writes the metadata of every template to DIR/NAME.json and removes the .json files
// of templates that no longer exist. Each file is written as a draft and then renamed.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <system_error>

#include "host/metadata.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: describe DIR\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::set<std::string> written;
  for (int i = 0; i < attacca_record_count; ++i) {
    const attacca_record& record = *attacca_records[i];
    const std::string name = std::string(record.entry.name) + ".json";
    const std::filesystem::path draft = folder / (name + ".draft");
    std::ofstream file(draft);
    file << attacca_description::metadata(record);
    file.close();
    std::error_code error;
    if (file) std::filesystem::rename(draft, folder / name, error);
    if (!file || error) {
      std::fprintf(stderr, "describe: cannot write %s\n", (folder / name).c_str());
      return 1;
    }
    written.insert(name);
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() == ".json" && !written.count(name))
      std::filesystem::remove(entry.path());
  }
  return 0;
}
