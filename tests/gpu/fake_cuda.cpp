#include "gpu/fake_cuda.hpp"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <string>

// $FAKE_CUDA_VERSION is the driver's. Without a device: handles are numbers, device memory is host
// memory.
namespace {

// An H200's: multiprocessors, L2, compute capability, shared memory of a block. Others are their
// own number.
constexpr int kAttributes[][2] = {{13, 1980000},  {16, 132}, {36, 3201000}, {37, 6144},
                                  {38, 60 << 20}, {75, 9},   {76, 0},       {97, 232448}};

struct State {
  std::mutex mutex;
  std::string calls, watched;
  int count = 0;
  int fail_call = -1, fail_code = 0;
  std::atomic<int> live = 0;
  std::atomic<uintptr_t> next_handle = 0x1000;
  // The clock: each launch, on the stream or by a graph, takes as long as any other.
  int launched = 0, captured = 0;
  bool capturing = false;
  std::map<void*, int> launches;  // those in a graph; those before an event
  bool quiet = false;
  bool names_streams = false, checks_memory = false;
  std::map<uintptr_t, size_t> device_blocks, host_blocks;
  size_t limit = SIZE_MAX;
};
constexpr float kLaunchMilliseconds = 1.5f;
State& state() {
  static State s;
  return s;
}
thread_local void* current_context = nullptr;
// CUstreamCaptureMode: 2, relaxed, lets the thread call what a capture forbids. A capture here is
// always its thread's own.
thread_local int capture_mode = 0;
thread_local bool captures = false, broken = false;

// The calls that need a current context.
bool needs_context(const std::string& symbol) {
  for (const char* begin : {"cuLaunch", "cuMem", "cuModule", "cuStreamCreate", "cuEventCreate",
                            "cuGraphLaunch", "cuFuncSet", "cuOccupancy", "cuCtxSynchronize"})
    if (symbol.starts_with(begin)) return true;
  return false;
}

// Notes the call; the code that it must return at once, or 0. CUDA_ERROR_INVALID_CONTEXT where
// there is none.
int note(const char* symbol, const std::string& arguments = {}) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const bool apart = !arguments.empty() && arguments[0] != ' ';
  s.calls += std::string(symbol) + (apart ? " " : "") + arguments + "\n";
  if (s.count++ == s.fail_call) return s.fail_code;
  return current_context == nullptr && needs_context(symbol) ? 201 : 0;
}

// CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and the capture is broken, where the thread captures.
int refuse_in_capture() {
  if (!captures || capture_mode == 2) return 0;
  broken = true;
  return 900;
}

int make(const char* symbol, void** handle, const std::string& arguments = {}) {
  if (const int code = note(symbol, arguments)) return code;
  ++state().live;
  *handle = reinterpret_cast<void*>(state().next_handle += 0x10);
  return 0;
}

int drop(const char* symbol) {
  if (const int code = note(symbol)) return code;
  --state().live;
  return 0;
}

// " on 0x1230", where the streams are asked for.
std::string on(void* stream) {
  if (!state().names_streams) return {};
  char text[24];
  snprintf(text, sizeof text, " on %#lx",
           static_cast<unsigned long>(reinterpret_cast<uintptr_t>(stream)));
  return text;
}

using Blocks = std::map<uintptr_t, size_t>;

// Keeps a block that was made; CUDA_ERROR_INVALID_VALUE where one that is given back is not kept.
void keep(Blocks& blocks, void* block, size_t bytes) {
  const std::lock_guard lock(state().mutex);
  blocks[reinterpret_cast<uintptr_t>(block)] = bytes;
}
int give_back(Blocks& blocks, void* block) {
  const std::lock_guard lock(state().mutex);
  if (blocks.erase(reinterpret_cast<uintptr_t>(block)) == 0) return 1;
  free(block);
  return 0;
}

// Bytes of device memory.
size_t in_use() {
  const std::lock_guard lock(state().mutex);
  size_t bytes = 0;
  for (const auto& [address, size] : state().device_blocks) bytes += size;
  return bytes;
}

// CUDA_ERROR_INVALID_VALUE where it is asked for and the bytes are not a part of device memory.
int check_memory(uint64_t address, size_t bytes) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (!s.checks_memory) return 0;
  auto at = s.device_blocks.upper_bound(address);
  if (at == s.device_blocks.begin()) return 1;
  --at;
  return address + bytes <= at->first + at->second ? 0 : 1;
}

// CUlaunchConfig.
struct FakeLaunchConfig {
  unsigned grid[3], block[3], shared;
  void* stream;
  const struct { int id, padding, value, rest[15]; } * attributes;
  unsigned count;
};

// " 0x1000 0x40", as fake_cuda_watch asked for.
std::string watched_bits(void** parameters) {
  std::istringstream sizes(state().watched);
  std::string text, watched;
  for (size_t i = 0; sizes >> watched; ++i) {
    size_t bytes = 0, offset = 0;
    const bool first = sscanf(watched.c_str(), "%zu+%zu", &bytes, &offset) == 2;
    uint64_t bits = 0;
    memcpy(&bits, static_cast<const char*>(parameters[first ? 0 : i]) + offset, bytes);
    char each[24];
    snprintf(each, sizeof each, " %#lx", static_cast<unsigned long>(bits));
    text += each;
  }
  return text;
}

// Aligned as the driver's.
void* allocate(size_t bytes) {
  return aligned_alloc(256, (bytes + 255) / 256 * 256);
}

}  // namespace

extern "C" {

void fake_cuda_reset() {
  State& s = state();
  s.calls.clear();
  s.watched.clear();
  s.count = 0;
  s.fail_call = -1;
}
void fake_cuda_fail(int call, int code) {
  state().fail_call = state().count + call;
  state().fail_code = code;
}
void fake_cuda_watch(const char* sizes) {
  state().watched = sizes;
}
void fake_cuda_be_quiet(int quiet) {
  state().quiet = quiet != 0;
}
const char* fake_cuda_calls() {
  return state().calls.c_str();
}
int fake_cuda_call_count() {
  return state().count;
}
int fake_cuda_live() {
  return state().live;
}
int fake_cuda_blocks() {
  const std::lock_guard lock(state().mutex);
  return static_cast<int>(state().device_blocks.size() + state().host_blocks.size());
}
void fake_cuda_name_streams(int name) {
  state().names_streams = name != 0;
}
size_t fake_cuda_limit(size_t bytes) {
  state().limit = bytes;
  return in_use();
}
void fake_cuda_check_memory(int check) {
  state().checks_memory = check != 0;
}

int cuInit(unsigned) {
  return note("cuInit");
}
int cuDriverGetVersion(int* version) {
  const char* given = getenv("FAKE_CUDA_VERSION");
  *version = given ? atoi(given) : 13000;
  return note("cuDriverGetVersion");
}
int cuGetErrorName(int code, const char** name) {
  *name = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : code == 100 ? "CUDA_ERROR_NO_DEVICE" : nullptr;
  return 0;
}
int cuGetErrorString(int code, const char** text) {
  *text = code == 2 ? "out of memory" : nullptr;
  return 0;
}

int cuDeviceGetCount(int* count) {
  *count = 2;
  return note("cuDeviceGetCount");
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  const int code = note("cuDeviceGet", std::to_string(ordinal));
  return code ? code : ordinal < 0 || ordinal >= 2 ? 101 : 0;
}
int cuDeviceGetName(char* name, int length, int device) {
  snprintf(name, static_cast<size_t>(length), "Fake %d", device);
  return note("cuDeviceGetName");
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute;
  for (const auto& [number, is] : kAttributes)
    if (number == attribute) *value = is;
  return note("cuDeviceGetAttribute", std::to_string(attribute));
}
int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = size_t{1} << 37;
  return note("cuDeviceTotalMem_v2");
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
  if (const int code = note("cuDevicePrimaryCtxRetain")) return code;
  ++state().live;
  *context = reinterpret_cast<void*>(static_cast<uintptr_t>(0x10 + device));
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int) {
  return drop("cuDevicePrimaryCtxRelease_v2");
}
int cuCtxGetCurrent(void** context) {
  *context = current_context;
  if (state().quiet) return 0;
  return note("cuCtxGetCurrent");
}
int cuCtxSetCurrent(void* context) {
  if (const int code = note("cuCtxSetCurrent")) return code;
  current_context = context;
  return 0;
}
int cuCtxSynchronize() {
  if (const int code = note("cuCtxSynchronize")) return code;
  broken = broken || captures;  // whatever the mode
  return captures ? 900 : 0;
}

int cuModuleLoadDataEx(void** module, const void* image, unsigned count, int* options,
                       void** values) {
  if (strstr(static_cast<const char*>(image), "bad") && count == 2 && options[0] == 5) {
    snprintf(static_cast<char*>(values[0]), 100, "ptxas: line 7: bad");
    note("cuModuleLoadDataEx", "bad");
    return 218;
  }
  if (const int code = refuse_in_capture()) return code;
  return make("cuModuleLoadDataEx", module);
}
int cuModuleUnload(void*) {
  if (const int code = refuse_in_capture()) return code;
  return drop("cuModuleUnload");
}
int cuModuleGetFunction(void** function, void*, const char* name) {
  if (const int code = note("cuModuleGetFunction", name)) return code;
  if (strcmp(name, "missing") == 0) return 500;
  *function = reinterpret_cast<void*>(0x77);
  return 0;
}
int cuFuncGetAttribute(int* value, int attribute, void*) {
  *value = attribute == 4 ? 168 : 0;
  return note("cuFuncGetAttribute", std::to_string(attribute));
}
int cuFuncSetAttribute(void*, int attribute, int value) {
  return note("cuFuncSetAttribute", std::to_string(attribute) + " " + std::to_string(value));
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int, size_t) {
  *blocks = 2;
  return note("cuOccupancyMaxActiveBlocksPerMultiprocessor");
}
int cuOccupancyMaxActiveClusters(int* clusters, void*, const void*) {
  *clusters = 30;
  return note("cuOccupancyMaxActiveClusters");
}
int cuLaunchKernel(void*, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void* stream, void** parameters, void**) {
  if (state().quiet) return 0;
  char text[128];
  snprintf(text, sizeof text, "%u,%u,%u %u,%u,%u %u %d", gx, gy, gz, bx, by, bz, shared,
           *static_cast<int*>(parameters[0]));
  if (const int code = note("cuLaunchKernel", text + watched_bits(parameters) + on(stream)))
    return code;
  const std::lock_guard lock(state().mutex);
  ++(state().capturing ? state().captured : state().launched);
  return 0;
}

int cuLaunchKernelEx(const FakeLaunchConfig* config, void*, void**, void**) {
  if (state().quiet) return 0;
  const auto& [grid, block, shared, stream, attributes, count] = *config;
  const bool dependent = count == 1 && attributes->id == 6 && attributes->value == 1;
  char text[128];
  snprintf(text, sizeof text, "%u,%u,%u %u,%u,%u%s", grid[0], grid[1], grid[2], block[0], block[1],
           block[2], dependent ? " dependent" : "");
  if (const int code = note("cuLaunchKernelEx", text + on(stream))) return code;
  const std::lock_guard lock(state().mutex);
  ++(state().capturing ? state().captured : state().launched);
  return 0;
}

int cuMemAlloc_v2(uint64_t* pointer, size_t bytes) {
  if (const int code = note("cuMemAlloc_v2", std::to_string(bytes))) return code;
  if (const int code = refuse_in_capture()) return code;
  if (const size_t used = in_use(); used + bytes > state().limit) return 2;
  ++state().live;
  *pointer = reinterpret_cast<uintptr_t>(allocate(bytes));
  keep(state().device_blocks, reinterpret_cast<void*>(*pointer), bytes);
  return 0;
}
int cuMemFree_v2(uint64_t pointer) {
  if (const int code = refuse_in_capture()) return code;
  if (const int code = give_back(state().device_blocks, reinterpret_cast<void*>(pointer)))
    return code;
  return drop("cuMemFree_v2");
}
int cuMemHostAlloc(void** pointer, size_t bytes, unsigned) {
  if (const int code = note("cuMemHostAlloc", std::to_string(bytes))) return code;
  if (const int code = refuse_in_capture()) return code;
  ++state().live;
  *pointer = allocate(bytes);
  keep(state().host_blocks, *pointer, bytes);
  return 0;
}
int cuMemFreeHost(void* pointer) {
  if (const int code = refuse_in_capture()) return code;
  if (const int code = give_back(state().host_blocks, pointer)) return code;
  return drop("cuMemFreeHost");
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
  if (const int code = note("cuMemcpyHtoDAsync_v2", std::to_string(bytes) + on(stream)))
    return code;
  if (const int code = check_memory(to, bytes)) return code;
  memcpy(reinterpret_cast<void*>(to), from, bytes);
  return 0;
}
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
  if (const int code = note("cuMemcpyDtoHAsync_v2", std::to_string(bytes) + on(stream)))
    return code;
  if (const int code = check_memory(from, bytes)) return code;
  memcpy(to, reinterpret_cast<void*>(from), bytes);
  return 0;
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  if (state().quiet) return 0;
  if (const int code = note("cuMemcpyDtoDAsync_v2", std::to_string(bytes) + on(stream)))
    return code;
  for (const uint64_t address : {to, from})
    if (const int code = check_memory(address, bytes)) return code;
  memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
  return 0;
}
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void*) {
  if (state().quiet) return 0;
  if (const int code = note("cuMemsetD8Async", std::to_string(bytes))) return code;
  memset(reinterpret_cast<void*>(to), value, bytes);
  return 0;
}

int cuStreamCreate(void** stream, unsigned) {
  return make("cuStreamCreate", stream);
}
int cuStreamDestroy_v2(void*) {
  return drop("cuStreamDestroy_v2");
}
int cuStreamSynchronize(void* stream) {
  return note("cuStreamSynchronize", on(stream));
}
int cuStreamWaitValue32_v2(void* stream, unsigned long long, unsigned value, unsigned) {
  return note("cuStreamWaitValue32_v2", std::to_string(value) + on(stream));
}
int cuStreamWriteValue32_v2(void* stream, unsigned long long word, unsigned value, unsigned) {
  std::memcpy(reinterpret_cast<void*>(word), &value, sizeof value);
  return note("cuStreamWriteValue32_v2", std::to_string(value) + on(stream));
}
int cuStreamWaitEvent(void* stream, void*, unsigned) {
  return note("cuStreamWaitEvent", on(stream));
}
int cuStreamBeginCapture_v2(void*, int) {
  if (const int code = note("cuStreamBeginCapture_v2")) return code;
  const std::lock_guard lock(state().mutex);
  state().capturing = captures = true;
  broken = false;
  state().captured = 0;
  return 0;
}
// Neither noted nor made to fail.
int cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode);
  return 0;
}
int cuStreamEndCapture(void*, void** graph) {
  captures = false;
  const int code = broken ? 901 : make("cuStreamEndCapture", graph);
  const std::lock_guard lock(state().mutex);
  state().capturing = false;
  if (code == 0) state().launches[*graph] = state().captured;
  return code;
}

int cuEventCreate(void** event, unsigned) {
  return make("cuEventCreate", event);
}
int cuEventDestroy_v2(void*) {
  return drop("cuEventDestroy_v2");
}
int cuEventRecord(void* event, void* stream) {
  if (const int code = note("cuEventRecord", on(stream))) return code;
  const std::lock_guard lock(state().mutex);
  state().launches[event] = state().launched;
  return 0;
}
int cuEventSynchronize(void*) {
  return note("cuEventSynchronize");
}
int cuEventElapsedTime(float* milliseconds, void* begin, void* end) {
  if (const int code = note("cuEventElapsedTime")) return code;
  const std::lock_guard lock(state().mutex);
  const int launches = state().launches[end] - state().launches[begin];
  *milliseconds = kLaunchMilliseconds * static_cast<float>(launches);
  return 0;
}

int cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long) {
  if (const int code = make("cuGraphInstantiateWithFlags", exec)) return code;
  const std::lock_guard lock(state().mutex);
  state().launches[*exec] = state().launches[graph];
  return 0;
}
int cuGraphDestroy(void*) {
  return drop("cuGraphDestroy");
}
int cuGraphLaunch(void* exec, void*) {
  if (const int code = note("cuGraphLaunch")) return code;
  const std::lock_guard lock(state().mutex);
  state().launched += state().launches[exec];
  return 0;
}
int cuGraphExecDestroy(void*) {
  return drop("cuGraphExecDestroy");
}
}
