// What a thread does that neither fork() nor exit() of another thread may cut in two: a child
// process would find its locks held for ever, and static destructors of oneDNN free what it uses.
#pragma once

namespace attacca {

// While one lives, fork() in another thread waits. So hold it for the length of one parallel job or
// less, and never across something that forks or waits for another thread that begins a hold.
// Holds nest.
class ForkHold {
 public:
  ForkHold() noexcept;
  ~ForkHold();
  ForkHold(const ForkHold&) = delete;
  ForkHold& operator=(const ForkHold&) = delete;
};

// For a thread that helps the one that holds: its own holds then neither wait nor count.
class SharedHold {
 public:
  SharedHold() noexcept;
  ~SharedHold();
  SharedHold(const SharedHold&) = delete;
  SharedHold& operator=(const SharedHold&) = delete;
};

// Around calls of oneDNN: exit() waits too, before static destructors run.
// Throws std::system_error once exit() has come so far.
class LibraryHold {
 public:
  LibraryHold();

 private:
  ForkHold hold_;
};

// Call it after oneDNN may have made static objects: exit() destroys what was made later first.
void wait_at_exit();

}  // namespace attacca
