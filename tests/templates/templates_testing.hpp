// The built templates, and bodies for their holes.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "gtest/gtest.h"

#include "templates/catalog.hpp"

namespace attacca::templates::testing {

// Stands for the driver's cuTensorMapEncodeTiled: it takes any tensor map.
int fake_encode_tiled();
void* fake_encoder();

// The catalogue of the build tree; aborts where it cannot be opened.
const Catalog& built();

// Parameters of the hole in PTX, in order, by the signature: "b32" or "b64".
std::vector<std::string_view> hole_parameters(const epilogue::HoleSignature& hole);
int result_bytes(const epilogue::HoleSignature& hole);

// A PTX module for this target with a body of the hole that returns zeros, or a hash of all of its
// arguments and of a field of the context.
std::string trivial_body(const Template& kernel);
std::string thorough_body(const Template& kernel);

std::string read(const std::filesystem::path& path);

}  // namespace attacca::templates::testing
