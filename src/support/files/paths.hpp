// Where Attacca's own files are.
#pragma once

#include <string>

namespace attacca {

// $ATTACCA_CACHE_DIR, else $XDG_CACHE_HOME/attacca, else ~/.cache/attacca, else attacca-UID in the
// system's temporary directory. Nothing is created. It is used only if it is private
// (support/files/private_folder.hpp).
std::string cache_directory();

// The library or the program that holds this code; empty if the system does not say.
std::string own_path();
// share/attacca/NAME of its installation, which may not exist; empty as above.
std::string installed_folder(const std::string& name);

}  // namespace attacca
