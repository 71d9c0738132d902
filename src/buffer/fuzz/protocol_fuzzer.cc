// Any message of a burst buffer, its kind in the first byte: decoded or refused; what was decoded encodes, and decodes to the
// same bytes again. The rest as a path stays within its folder.
#include <algorithm>

#include "base/status.h"
#include "buffer/disk_files.h"
#include "burst/protocol.h"
#include "burst/settings.h"
#include "burst/store_messages.h"

namespace {

using namespace kedge::buffer;  // NOLINT(google-build-using-namespace)

template <typename Message>
void Try(kedge::Result<Message> (*decode)(kedge::ByteSpan), kedge::ByteSpan bytes) {
  const auto decoded = decode(bytes);
  if (!decoded.ok()) return;
  const kedge::Buffer first = Encode(*decoded);
  const auto again = decode(first);
  KEDGE_CHECK(again.ok());
  KEDGE_CHECK(Encode(*again) == first);
}

void TryPath(std::string_view path) {
  (void)ParseFileName(path, true);
  if (!CheckPath(path).ok()) return;
  KEDGE_CHECK(!path.empty() && path.front() != '/' && path.size() <= kPathBytesMax);
  KEDGE_CHECK(("/" + std::string(path) + "/").find("/../") == std::string::npos);
  KEDGE_CHECK(std::find(path.begin(), path.end(), '\0') == path.end());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const kedge::ByteSpan bytes = std::as_bytes(std::span(data + 1, size - 1));
  switch (data[0] % 16) {
    case 0: Try(DecodePathRequest, bytes); break;
    case 1: Try(DecodeOpenedFile, bytes); break;
    case 2: Try(DecodeWriteRequest, bytes); break;
    case 3: Try(DecodeCloseRequest, bytes); break;
    case 4: Try(DecodeReadRequest, bytes); break;
    case 5: Try(DecodeReadReply, bytes); break;
    case 6: Try(DecodeEndRequest, bytes); break;
    case 7: Try(DecodeListRequest, bytes); break;
    case 8: Try(DecodeFileList, bytes); break;
    case 9: Try(DecodeDescription, bytes); break;
    case 10: Try(DecodeRenameRequest, bytes); break;
    case 11: Try(DecodeStoreRequest, bytes); break;
    case 12: Try(DecodeStoreReply, bytes); break;
    case 13: Try(DecodeStoreReadRequest, bytes); break;
    case 14: Try(DecodeStoreReadReply, bytes); break;
    default: TryPath(kedge::AsText(bytes)); break;
  }
  return 0;
}
