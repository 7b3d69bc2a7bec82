#include "pool.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace braid {
namespace {

// Decode runs a product every few tens of microseconds; a helper that sleeps in between wakes too late.
constexpr auto kWatch = std::chrono::microseconds(100);

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
  const std::function<void(int)>* task;
  int index;
  {
    std::lock_guard lock(mutex_);
    if (next_ >= tasks_) return false;
    task = task_;
    index = next_++;
  }
  (*task)(index);
  unfinished_.fetch_sub(1, std::memory_order_acq_rel);
  return true;
}

void Pool::run(int tasks, const std::function<void(int)>& task) {
  std::unique_lock caller(caller_, std::try_to_lock);
  if (!caller.owns_lock()) {
    for (int i = 0; i < tasks; ++i) task(i);
    return;
  }
  {
    std::lock_guard lock(mutex_);
    task_ = &task;
    next_ = 0;
    tasks_ = tasks;
    unfinished_.store(tasks, std::memory_order_relaxed);
  }
  jobs_.fetch_add(1, std::memory_order_release);
  wake_.notify_all();
  while (run_one()) {
  }
  while (unfinished_.load(std::memory_order_acquire) > 0) std::this_thread::yield();
}

void Pool::help() {
  unsigned seen = 0;
  for (;;) {
    const auto until = std::chrono::steady_clock::now() + kWatch;
    while (jobs_.load(std::memory_order_acquire) == seen && std::chrono::steady_clock::now() < until) pause();
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return jobs_.load(std::memory_order_acquire) != seen; });
      seen = jobs_.load(std::memory_order_acquire);
    }
    while (run_one()) {
    }
  }
}

}  // namespace braid
