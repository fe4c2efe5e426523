#include "worker/weights/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace gradwire {
namespace {

using Kind = PickleValue::Kind;
using ::testing::HasSubstr;

// A literal with its zero bytes.
template <size_t size>
std::string Bytes(const char (&literal)[size]) {
  return std::string(literal, size - 1);
}

std::string Repeated(absl::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) absl::StrAppend(&all, text);
  return all;
}

PickleValue Unpickled(const std::string& bytes) {
  absl::StatusOr<PickleValue> value = ParsePickle(bytes);
  EXPECT_TRUE(value.ok()) << value.status();
  return value.ok() ? *std::move(value) : PickleValue{};
}

std::string ErrorOf(const std::string& bytes) {
  const absl::Status status = ParsePickle(bytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

// A value as Python writes it, calls as name(...), what is looked up as <...>.
std::string Shown(const PickleValue& value) {
  std::string items;
  for (const PickleValue& item : value.items) {
    absl::StrAppend(&items, items.empty() ? "" : ", ", Shown(item));
  }
  switch (value.kind) {
    case Kind::kNone:
      return "None";
    case Kind::kInteger:
      return absl::StrCat(value.number);
    case Kind::kText:
      return absl::StrCat("'", value.text, "'");
    case Kind::kGlobal:
      return value.text;
    case Kind::kList:
      return absl::StrCat("[", items, "]");
    case Kind::kDict:
      return absl::StrCat("{", items, "}");
    case Kind::kCall:
      return absl::StrCat("call(", items, ")");
    case Kind::kPersistent:
      return absl::StrCat("<", items, ">");
  }
  return "?";
}

TEST(Pickle, Integers_OfEverySize_HaveTheirSign) {
  EXPECT_EQ(Unpickled(Bytes("K\xff.")).number, 255);
  EXPECT_EQ(Unpickled(Bytes("M\x01\xff.")).number, 0xff01);
  EXPECT_EQ(Unpickled(Bytes("J\xfe\xff\xff\xff.")).number, -2);
  EXPECT_EQ(Unpickled(Bytes("J\xff\xff\xff\x7f.")).number, INT32_MAX);
  EXPECT_EQ(Unpickled(Bytes("\x8a\x00.")).number, 0);
  EXPECT_EQ(Unpickled(Bytes("\x8a\x01\x80.")).number, -128);
  EXPECT_EQ(Unpickled(Bytes("\x8a\x02\x80\x00.")).number, 128);
  EXPECT_EQ(Unpickled(Bytes("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80.")).number, INT64_MIN);
  EXPECT_EQ(Unpickled(Bytes("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\xff.")).number, -1);
}

TEST(Pickle, Constants_AreNumbersAndNone) {
  EXPECT_EQ(Shown(Unpickled("\x88.")), "1");
  EXPECT_EQ(Shown(Unpickled("\x89.")), "0");
  EXPECT_EQ(Shown(Unpickled("N.")), "None");
}

TEST(Pickle, Text_AnyBytes_AreKept) {
  EXPECT_EQ(Unpickled(Bytes("X\x03\x00\x00\x00"
                            "a\0\n"
                            "."))
                .text,
            Bytes("a\0\n"));
  EXPECT_EQ(Unpickled(Bytes("X\x00\x00\x00\x00.")).text, "");
}

TEST(Pickle, TuplesAndLists_OfEveryForm_AreLists) {
  EXPECT_EQ(Shown(Unpickled(").")), "[]");
  EXPECT_EQ(Shown(Unpickled("K\x01\x85.")), "[1]");
  EXPECT_EQ(Shown(Unpickled("K\x01K\x02\x86.")), "[1, 2]");
  EXPECT_EQ(Shown(Unpickled("K\x01K\x02K\x03\x87.")), "[1, 2, 3]");
  EXPECT_EQ(Shown(Unpickled("(t.")), "[]");
  EXPECT_EQ(Shown(Unpickled("(K\x01(K\x02tt.")), "[1, [2]]");
  EXPECT_EQ(Shown(Unpickled("]K\x01"
                            "a(K\x02K\x03"
                            "e.")),
            "[1, 2, 3]");
}

TEST(Pickle, Dicts_ItemByItemOrMany_HaveKeysAndValues) {
  EXPECT_EQ(Shown(Unpickled("}.")), "{}");
  EXPECT_EQ(Shown(Unpickled("}K\x01K\x02s(K\x03K\x04u.")), "{1, 2, 3, 4}");
  EXPECT_EQ(Shown(Unpickled("ccollections\nOrderedDict\n)R(K\x01Nu.")), "{1, None}");
}

TEST(Pickle, Calls_AreDataAndNothingIsDone) {
  const PickleValue call = Unpickled("cos\nsystem\n(K\x01K\x02tR.");
  EXPECT_EQ(Shown(call), "call(os system, 1, 2)");
  EXPECT_TRUE(call.IsCall("os system"));
  EXPECT_FALSE(call.IsCall("os"));
  EXPECT_FALSE(Unpickled("K\x01.").IsCall("os system"));
  EXPECT_FALSE(Unpickled("N)R.").IsCall(""));  // of what is no name
}

TEST(Pickle, PersistentId_HoldsIt) { EXPECT_EQ(Shown(Unpickled("K\x01Q.")), "<1>"); }

TEST(Pickle, State_IsPassedOver) {
  EXPECT_EQ(Shown(Unpickled("}K\x05"
                            "b.")),
            "{}");
}

TEST(Pickle, Memo_OfBothForms_GivesWhatWasPut) {
  EXPECT_EQ(Shown(Unpickled("K\x07q\x05h\x05\x86.")), "[7, 7]");
  EXPECT_EQ(Shown(Unpickled(Bytes("K\x07r\x01\x00\x01\x00K\x08j\x01\x00\x01\x00\x87."))),
            "[7, 8, 7]");
  EXPECT_EQ(Shown(Unpickled("K\x07q\x01K\x08q\x01h\x01\x87.")), "[7, 8, 8]");
}

TEST(Pickle, DepthAndCount_AreOfAllWithin) {
  const PickleValue value = Unpickled("(K\x01(K\x02ttK\x03\x86.");
  EXPECT_EQ(value.depth, 4);
  EXPECT_EQ(value.count, 6);
}

TEST(Pickle, Opcodes_OfOtherProtocols_AreNamedWithTheirPlace) {
  EXPECT_THAT(ErrorOf("\x80\x04\x95"), HasSubstr("pickle at byte 3: got opcode 0x95, expected one "
                                                 "that a state dict needs"));
  EXPECT_THAT(ErrorOf(Bytes("N\0")), HasSubstr("at byte 2: got opcode 0x00"));
}

TEST(Pickle, CutAnywhere_SaysThatTheEndCame) {
  const std::string whole = Bytes(
      "\x80\x02}(X\x01\x00\x00\x00wq\x01"
      "ctorch\nFloat\nK\x01M\x02\x00J\x03\x00\x00\x00\x87Ru.");
  EXPECT_EQ(Shown(Unpickled(whole)), "{'w', call(torch Float, 1, 2, 3)}");
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THAT(ErrorOf(whole.substr(0, size)), HasSubstr("got the end")) << size;
  }
}

TEST(Pickle, StackThatIsTooShort_SaysWhatIsMissing) {
  for (const char* bytes : {".", "R.", "N\x86.", "q\x01.", "b.", "Q.", "NR."}) {
    EXPECT_THAT(ErrorOf(bytes), HasSubstr("got an empty stack, expected a value")) << bytes;
  }
  for (const char* bytes : {"t.", "u.", "Ne."}) {
    EXPECT_THAT(ErrorOf(bytes), HasSubstr("got no mark, expected one")) << bytes;
  }
}

// What is below a mark belongs to those outside.
TEST(Pickle, ValuesBelowAMark_AreOutOfReach) {
  EXPECT_THAT(ErrorOf("N(R."), HasSubstr("got an empty stack"));
  EXPECT_THAT(ErrorOf("N(."), HasSubstr("got an empty stack"));
}

TEST(Pickle, ItemsOfSomethingElse_AreRefused) {
  for (const char* bytes : {"N(e.", "](K\x01K\x02u.",
                            "}K\x01"
                            "a.",
                            "}(K\x01u.", "K\x01K\x02K\x03s."}) {
    EXPECT_THAT(ErrorOf(bytes), HasSubstr("got items without a list or dict")) << bytes;
  }
}

TEST(Pickle, MemoThatWasNeverWritten_IsNamed) {
  EXPECT_THAT(ErrorOf("h\x09."), HasSubstr("got memo 9, expected one that was stored"));
  EXPECT_THAT(ErrorOf(Bytes("j\x01\x00\x01\x00.")), HasSubstr("got memo 65537"));
}

TEST(Pickle, NumberOfMoreThanEightBytes_IsRefused) {
  EXPECT_THAT(ErrorOf("\x8a\x09"
                      "123456789."),
              HasSubstr("got a number of 9 bytes"));
}

TEST(Pickle, TextLongerThanTheFile_TakesNoMemoryForIt) {
  EXPECT_THAT(ErrorOf("X\xff\xff\xff\xffshort."), HasSubstr("got the end"));
}

// Each level is a recursion of whoever copies or destroys it.
TEST(Pickle, ValuesDeepWithinEachOther_AreRefused) {
  EXPECT_EQ(Unpickled("N" + Repeated("\x85", 60) + ".").depth, 61);
  for (const std::string& level : {std::string("\x85"), std::string("Q")}) {
    EXPECT_THAT(ErrorOf("N" + Repeated(level, 300000) + "."),
                HasSubstr("got values that are nested too deeply"));
  }
  EXPECT_THAT(ErrorOf(Repeated("]", 300000) + Repeated("a", 299999) + "."),
              HasSubstr("got values that are nested too deeply"));
}

// 64 steps, each a list of the one before twice, would be 2^64 values.
TEST(Pickle, CopiesOfCopies_AreRefused) {
  std::string bytes = "Nq\x01";
  for (int i = 0; i < 60; ++i) absl::StrAppend(&bytes, "h\x01h\x01\x86q\x01");
  EXPECT_THAT(ErrorOf(bytes + "."), HasSubstr("got too many copies of values"));
}

}  // namespace
}  // namespace gradwire
