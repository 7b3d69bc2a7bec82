// Threads that help one caller through one job at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

namespace braid {

// The caller works too and waits only for parts that a helper has begun. A helper that the system has not scheduled,
// because the window is drawing or a build is running, therefore holds nobody up; OpenMP's barrier waits for it, and
// made a decode step 30 times slower on a busy machine.
class Pool {
 public:
  using Part = std::function<void(int first, int last)>;

  // Never destroyed: a product may still be running on MLX's thread while the process ends.
  static Pool& shared();

  // Calls part(first, last) for ranges that cover [0, count) once, on this thread and the helpers; each begins at a
  // multiple of `least`. A second caller at the same time works alone.
  void run(int count, int least, const Part& part);

 private:
  Pool();
  void help();
  // Takes and runs one range of the current job; false when none is left.
  bool run_one();

  std::mutex caller_;
  // The current job. Written only while nothing is left of it, so whoever takes a range has read the job it is of.
  std::atomic<const Part*> part_{nullptr};
  std::atomic<int> count_{0};
  std::atomic<int> least_{1};
  // Number of the job in the upper half, items that nobody has taken in the lower one.
  std::atomic<std::uint64_t> left_{0};
  std::atomic<int> unfinished_{0};
  // Counts jobs, for helpers to watch.
  std::atomic<int> jobs_{0};
  int width_ = 1;
};

}  // namespace braid
