// The C interface: reports as pages.
#include "api/c/status.hpp"
#include "api/report_page.hpp"
#include "attacca/attacca.h"

extern "C" {

attacca_status* attacca_report_page(const char* json, attacca_bytes** html) {
  return guarded([&]() -> Status {
    ATTACCA_REQUIRE(json, html);
    ATTACCA_TRY(std::string page, api::report_page(json, "<json>"));
    *html = new attacca_bytes{std::move(page)};
    return {};
  });
}

}  // extern "C"
