// Where a store on a burst buffer lies, and in whose name: "bb://SERVER/PREFIX[?KEY=VALUE&...]". With drain=STORE in it, that
// store with the burst buffer before it (drained/drained_store.h); with partner=SERVER, too, with two of them, which both have
// all of it (copies/copied_store.h).
//
// The text is all that agent, client, tools and the records of a node need to open the store; it names the file with the secret
// and says nothing secret. What it leaves open the configuration says (buffer.*, net.*), once, when the text is made canonical;
// so an agent that reads another configuration opens the same store.
#pragma once

#include <string>
#include <string_view>

#include "base/config.h"
#include "base/status.h"

namespace kedge::buffer {

struct StoreLocation {
  std::string server;
  std::string prefix;  // without slashes at its ends
  std::string folder;  // absolute: where the server says where it is
  std::string owner;
  std::string secret;  // absolute: the file with it
  std::string provider = "tcp";
  std::string interface_address;
  std::string drain = {};    // where a store lies; resolved in the canonical text. Empty: the buffer's store stands alone
  std::string partner = {};  // the second server, in the same folder and for the same owner; empty: there is none

  bool encrypt = false;  // its bytes lie sealed where the other side reads them (net.encrypt)

  // Canonical: two texts of one meaning give one.
  std::string ToText() const;
  // For people: "bb://SERVER/PREFIX".
  std::string ToDisplay() const;
  // The store on this server alone, or on its partner's. REQUIRES of the latter: there is one.
  StoreLocation Alone() const;
  StoreLocation Partner() const;

  friend bool operator==(const StoreLocation&, const StoreLocation&) = default;
};

// kInvalidArgument says what is wrong with it, or what is missing. `config`: of KedgeConfigRegistry's keys, or null.
Result<StoreLocation> ParseStoreLocation(std::string_view text, const Config* config);

}  // namespace kedge::buffer
