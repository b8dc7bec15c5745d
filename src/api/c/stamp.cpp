// The C interface: what kept decisions depend on.
#include "fmt/format.h"

#include "api/c/status.hpp"
#include "attacca/attacca.h"
#include "run/shared/sources.hpp"
#include "templates/catalog.hpp"
#include "tune/shipped.hpp"

extern "C" {

attacca_status* attacca_decision_stamp(attacca_bytes** stamp) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(stamp);
    const auto catalog = attacca::templates::Catalog::open(nullptr);
    *stamp = new attacca_bytes{
        fmt::format("sources {}, templates {}, choices {:016x}", attacca::run::deciding_sources(),
                    catalog ? fmt::format("{:016x}", catalog->fingerprint()) : "none",
                    attacca::tune::ShippedChoices::get().fingerprint())};
    return {};
  });
}

}  // extern "C"
