// Where Attacca keeps files of its own.
#pragma once

#include <string>

namespace attacca {

// $ATTACCA_CACHE_DIR, else $XDG_CACHE_HOME/attacca, else ~/.cache/attacca, else attacca-UID in the
// system's temporary directory. Nothing is created. It is used where it is private alone
// (support/files/private_folder.hpp).
std::string cache_directory();

}  // namespace attacca
