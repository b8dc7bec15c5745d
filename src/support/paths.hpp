// Where Attacca keeps files of its own.
#pragma once

#include <string>

namespace attacca {

// $ATTACCA_CACHE_DIR, else $XDG_CACHE_HOME/attacca, else ~/.cache/attacca, else a folder in the
// system's temporary directory. Nothing is created.
std::string cache_directory();

}  // namespace attacca
