#include "pool.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace braid {
namespace {

// Decode runs a product every few tens of microseconds; a helper that sleeps in between wakes too late.
constexpr auto kWatch = std::chrono::microseconds(100);

// The caller looks this often for the end of a helper's part before it offers its core to others.
constexpr int kLooks = 2000;

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

Pool& Pool::shared() {
  static Pool& pool = *new Pool();
  return pool;
}

Pool::Pool() : width_(static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))) {
  for (int i = 1; i < width_; ++i) std::thread([this] { help(); }).detach();
}

bool Pool::run_one() {
  std::uint64_t state = left_.load(std::memory_order_acquire);
  while (const int left = static_cast<int>(state & 0xffffffff)) {
    const Part* part = part_.load(std::memory_order_relaxed);
    const int count = count_.load(std::memory_order_relaxed);
    const int least = least_.load(std::memory_order_relaxed);
    // Large ranges first, for little traffic, then ever smaller ones, so that all threads end together.
    const int share = left / (2 * width_) / least * least;
    const int taken = std::min(left, std::max(least, share));
    if (left_.compare_exchange_weak(state, state - taken, std::memory_order_acq_rel, std::memory_order_acquire)) {
      (*part)(count - left, count - left + taken);
      unfinished_.fetch_sub(taken, std::memory_order_acq_rel);
      return true;
    }
  }
  return false;
}

void Pool::run(int count, int least, const Part& part) {
  std::unique_lock caller(caller_, std::try_to_lock);
  if (!caller.owns_lock()) return part(0, count);
  part_.store(&part, std::memory_order_relaxed);
  count_.store(count, std::memory_order_relaxed);
  least_.store(least, std::memory_order_relaxed);
  unfinished_.store(count, std::memory_order_relaxed);
  const std::uint64_t job = (left_.load(std::memory_order_relaxed) >> 32) + 1;
  left_.store(job << 32 | static_cast<std::uint32_t>(count), std::memory_order_release);
  jobs_.fetch_add(1, std::memory_order_release);
  jobs_.notify_all();
  while (run_one()) {
  }
  for (int looks = 0; unfinished_.load(std::memory_order_acquire) > 0; ++looks) {
    if (looks < kLooks) {
      pause();
    } else {
      std::this_thread::yield();
    }
  }
}

void Pool::help() {
  int seen = 0;
  for (;;) {
    const auto until = std::chrono::steady_clock::now() + kWatch;
    while (jobs_.load(std::memory_order_acquire) == seen && std::chrono::steady_clock::now() < until) pause();
    jobs_.wait(seen, std::memory_order_acquire);
    seen = jobs_.load(std::memory_order_acquire);
    while (run_one()) {
    }
  }
}

}  // namespace braid
