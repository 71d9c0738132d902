// PAGEMAP_SCAN (Linux 6.7), which the headers of Debian 12 lack.
#pragma once

#include <sys/ioctl.h>

#include <cstdint>

namespace kedge::os {

struct ScannedRange {  // struct page_region
  uint64_t begin;
  uint64_t end;
  uint64_t categories;
};

struct PageScan {  // struct pm_scan_arg
  uint64_t struct_bytes;
  uint64_t flags;
  uint64_t begin;
  uint64_t end;
  uint64_t scanned_end;
  uint64_t ranges;
  uint64_t ranges_size;
  uint64_t pages_max;
  uint64_t category_inverted;
  uint64_t category_mask;
  uint64_t category_anyof_mask;
  uint64_t return_mask;
};

inline constexpr unsigned long kPageScan = _IOWR('f', 16, PageScan);  // PAGEMAP_SCAN
inline constexpr uint64_t kIsWritten = 1 << 1;                        // PAGE_IS_WRITTEN: not held any more

}  // namespace kedge::os
