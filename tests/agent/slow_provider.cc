// A provider of libfabric that takes its time to come up and has nothing to offer: FI_PROVIDER_PATH has libfabric load it.
#include <chrono>
#include <cstdlib>
#include <thread>

extern "C" __attribute__((visibility("default"))) void* fi_prov_ini() {
  const char* text = std::getenv("KEDGE_TEST_SLOW_PROVIDER_MS");
  std::this_thread::sleep_for(std::chrono::milliseconds(text == nullptr ? 0 : std::atoi(text)));
  return nullptr;
}
