#include "worker/weights/pickle.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gradwire {
namespace {

using Kind = PickleValue::Kind;

constexpr char kOrderedDict[] = "collections OrderedDict";
// Values are copied and destroyed recursively, and a few bytes can request copies of copies.
constexpr int kMostDepth = 64;
constexpr uint64_t kMostCopied = 1 << 22;

// One run of pickle's stack machine. After the first error, `status` has it, and all later reads
// are empty.
class Machine {
 public:
  explicit Machine(absl::string_view bytes) : bytes_(bytes) {}

  absl::StatusOr<PickleValue> Run() {
    while (status_.ok() && !stopped_) Step();
    PickleValue value = Pop();
    if (!status_.ok()) return status_;
    return value;
  }

 private:
  void Fail(absl::string_view got, absl::string_view expected) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(
        absl::StrCat("pickle at byte ", at_, ": got ", got, ", expected ", expected));
  }

  absl::string_view Take(uint64_t count) {
    if (count > bytes_.size() - at_) {
      Fail("the end", "more; is the file cut short?");
      return {};
    }
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }

  // Little endian; `sign`: the highest bit is the sign.
  int64_t TakeNumber(uint64_t count, bool sign) {
    const absl::string_view digits = Take(count);
    if (digits.size() > sizeof(int64_t)) {
      Fail(absl::StrCat("a number of ", digits.size(), " bytes"), "at most 8");
      return 0;
    }
    uint64_t number = 0;
    std::memcpy(&number, digits.data(), digits.size());
    const auto bits = static_cast<int>(8 * digits.size());
    const bool negative = sign && bits > 0 && bits < 64 && (number >> (bits - 1)) != 0;
    return static_cast<int64_t>(negative ? number - (uint64_t{1} << bits) : number);
  }

  std::string TakeLine() {
    const size_t end = bytes_.find('\n', at_);
    const std::string line(Take(end == absl::string_view::npos ? bytes_.size() + 1 : end - at_));
    Take(1);
    return line;
  }

  void Push(Kind kind, int64_t number = 0, std::string text = "",
            std::vector<PickleValue> items = {}) {
    stack_.push_back({kind, number, std::move(text), {}});
    Fill(std::move(items));
  }

  // Adds `items` to the last value.
  void Fill(std::vector<PickleValue> items) {
    PickleValue& value = stack_.back();
    for (PickleValue& item : items) {
      if (item.depth >= kMostDepth)
        return Fail("values that are nested too deeply", "fewer of them");
      value.depth = std::max(value.depth, item.depth + 1);
      value.count += item.count;
      value.items.push_back(std::move(item));
    }
  }

  // Whether `value` may be copied.
  bool MayCopy(const PickleValue& value) {
    copied_ += value.count;
    if (copied_ > kMostCopied) Fail("too many copies of values", "fewer of them");
    return copied_ <= kMostCopied;
  }

  PickleValue Pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) {
      Fail("an empty stack", "a value");
      return {};
    }
    PickleValue value = std::move(stack_.back());
    stack_.pop_back();
    return value;
  }

  // Returns the last `count` values, in order.
  std::vector<PickleValue> PopItems(size_t count) {
    std::vector<PickleValue> items(count);
    while (count-- > 0) items[count] = Pop();
    return items;
  }

  std::vector<PickleValue> PopToMark() {
    if (marks_.empty()) {
      Fail("no mark", "one");
      return {};
    }
    std::vector<PickleValue> items = PopItems(stack_.size() - marks_.back());
    marks_.pop_back();
    return items;
  }

  void Extend(Kind kind, std::vector<PickleValue> items) {
    if (stack_.empty() || stack_.back().kind != kind ||
        (kind == Kind::kDict && items.size() % 2 != 0)) {
      return Fail("items without a list or dict", "a list or dict, and items that fit");
    }
    Fill(std::move(items));
  }

  void Call() {
    PickleValue arguments = Pop();
    PickleValue callee = Pop();
    if (callee.text == kOrderedDict) return Push(Kind::kDict);
    std::vector<PickleValue> items = {std::move(callee)};
    for (PickleValue& argument : arguments.items) items.push_back(std::move(argument));
    Push(Kind::kCall, 0, "", std::move(items));
  }

  void Remember(int64_t key) {
    PickleValue value = Pop();
    if (MayCopy(value)) memo_[key] = value;
    stack_.push_back(std::move(value));
  }

  void Recall(int64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) return Fail(absl::StrCat("memo ", key), "one that was stored");
    if (MayCopy(found->second)) stack_.push_back(found->second);
  }

  void Step() {
    const absl::string_view opcode = Take(1);
    if (opcode.empty()) return;
    if (!(Value(opcode[0]) || Container(opcode[0]) || Control(opcode[0]))) {
      Fail(absl::StrFormat("opcode 0x%02x", static_cast<unsigned char>(opcode[0])),
           "one that a state dict needs");
    }
  }

  // Each returns whether it handles `opcode`.
  bool Value(char opcode) {
    switch (opcode) {
      case 'N':
        return Push(Kind::kNone), true;
      case '\x88':
      case '\x89':
        return Push(Kind::kInteger, opcode == '\x88' ? 1 : 0), true;
      case 'K':
        return Push(Kind::kInteger, TakeNumber(1, false)), true;
      case 'M':
        return Push(Kind::kInteger, TakeNumber(2, false)), true;
      case 'J':
        return Push(Kind::kInteger, TakeNumber(4, true)), true;
      case '\x8a':
        return Push(Kind::kInteger, TakeNumber(TakeNumber(1, false), true)), true;
      case 'X':
        return Push(Kind::kText, 0, std::string(Take(TakeNumber(4, false)))), true;
      case 'c': {
        const std::string module = TakeLine();
        return Push(Kind::kGlobal, 0, absl::StrCat(module, " ", TakeLine())), true;
      }
    }
    return false;
  }

  bool Container(char opcode) {
    switch (opcode) {
      case '}':
        return Push(Kind::kDict), true;
      case ')':
      case ']':
        return Push(Kind::kList), true;
      case '\x85':
      case '\x86':
      case '\x87':
        return Push(Kind::kList, 0, "", PopItems(static_cast<size_t>(opcode - '\x84'))), true;
      case 't':
        return PushItems(PopToMark()), true;
      case 's':
        return Extend(Kind::kDict, PopItems(2)), true;
      case 'u':
        return Extend(Kind::kDict, PopToMark()), true;
      case 'a':
        return Extend(Kind::kList, PopItems(1)), true;
      case 'e':
        return Extend(Kind::kList, PopToMark()), true;
    }
    return false;
  }

  bool Control(char opcode) {
    switch (opcode) {
      case '\x80':
        return Take(1), true;
      case '(':
        return marks_.push_back(stack_.size()), true;
      case 'q':
        return Remember(TakeNumber(1, false)), true;
      case 'r':
        return Remember(TakeNumber(4, false)), true;
      case 'h':
        return Recall(TakeNumber(1, false)), true;
      case 'j':
        return Recall(TakeNumber(4, false)), true;
      case 'Q':
        return Push(Kind::kPersistent, 0, "", PopItems(1)), true;
      case 'R':
        return Call(), true;
      case 'b':
        return Pop(), true;
      case '.':
        return stopped_ = true;
    }
    return false;
  }

  void PushItems(std::vector<PickleValue> items) { Push(Kind::kList, 0, "", std::move(items)); }

  const absl::string_view bytes_;
  size_t at_ = 0;
  std::vector<PickleValue> stack_;
  std::vector<size_t> marks_;  // sizes of the stack
  std::map<int64_t, PickleValue> memo_;
  uint64_t copied_ = 0;  // values copied to and from the memo
  bool stopped_ = false;
  absl::Status status_;
};

}  // namespace

bool PickleValue::IsCall(absl::string_view global) const {
  return kind == Kind::kCall && items.front().kind == Kind::kGlobal && items.front().text == global;
}

absl::StatusOr<PickleValue> ParsePickle(absl::string_view bytes) { return Machine(bytes).Run(); }

}  // namespace gradwire
