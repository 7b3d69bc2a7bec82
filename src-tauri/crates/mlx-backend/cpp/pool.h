// Threads that help one caller through the tasks of one job at a time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>

namespace braid {

// The caller works too and waits only for tasks that a helper has begun. A helper that the system has not scheduled,
// because the window is drawing or a build is running, therefore holds nobody up; OpenMP's barrier waits for it, and
// made a decode step 30 times slower on a busy machine.
class Pool {
 public:
  // Never destroyed: a product may still be running on MLX's thread while the process ends.
  static Pool& shared();

  // Runs task(i) for i in [0, tasks), on this thread and the helpers. A second caller at the same time works alone.
  void run(int tasks, const std::function<void(int)>& task);

  // Threads that may work at once, the caller included.
  int width() const { return width_; }

 private:
  Pool();
  void help();
  // Takes and runs one task of the current job; false when none is left.
  bool run_one();

  std::mutex caller_;
  std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by mutex_.
  const std::function<void(int)>* task_ = nullptr;
  int next_ = 0;
  int tasks_ = 0;
  // Counts jobs, so that idle helpers can watch for one without the mutex.
  std::atomic<unsigned> jobs_{0};
  std::atomic<int> unfinished_{0};
  int width_ = 1;
};

}  // namespace braid
