// Objects that are used by one call at a time and then again, so that a call allocates nothing.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <utility>

namespace attacca {

// T: what make() returns. Thread-safe. A concurrent call that finds no free object makes another.
template <class T>
class Reused {
 public:
  // The first is made here.
  explicit Reused(T first) { free_[0] = new T(std::move(first)); }
  Reused(const Reused&) = delete;
  Reused& operator=(const Reused&) = delete;
  ~Reused() {
    for (std::atomic<T*>& each : free_) delete each.load();
  }

  // Gives the object back at its end.
  class Lease {
   public:
    Lease(Reused& owner, std::unique_ptr<T> object) : owner_(owner), object_(std::move(object)) {}
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() { owner_.give_back(std::move(object_)); }
    T& operator*() const { return *object_; }
    T* operator->() const { return object_.get(); }

   private:
    Reused& owner_;
    std::unique_ptr<T> object_;
  };

  template <class Make>
  Lease take(const Make& make) {
    for (std::atomic<T*>& each : free_)
      if (T* object = each.exchange(nullptr, std::memory_order_acquire))
        return Lease(*this, std::unique_ptr<T>(object));
    return Lease(*this, std::make_unique<T>(make()));
  }

 private:
  void give_back(std::unique_ptr<T> object) {
    for (std::atomic<T*>& each : free_) {
      T* none = nullptr;
      if (each.compare_exchange_strong(none, object.get(), std::memory_order_release)) {
        object.release();
        return;
      }
    }
  }

  std::array<std::atomic<T*>, 4> free_ = {};
};

}  // namespace attacca
