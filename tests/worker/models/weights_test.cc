#include "worker/weights/weights.h"

#include <caffe2/serialize/inline_container.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/tensors/pickle_writer.h"
#include "common/tensors/torch_archive.h"
#include "tests/support/oracle.h"
#include "tests/support/temp_dir.h"
#include "worker/models/model.h"
#include "worker/weights/pickle.h"
#include "worker/weights/safetensors.h"
#include "worker/weights/torch_file.h"

namespace gradwire {
namespace {

using testing::AskOracle;
using ::testing::HasSubstr;
using testing::ReadFile;
using testing::TempDir;
using testing::WriteFile;

Weights Some() {
  torch::manual_seed(1);
  return {{"a.weight", torch::randn({2, 3})},
          {"a.num_batches_tracked", torch::tensor(7)},
          {"empty", torch::empty({0, 4})},
          {"of empty rows", torch::empty({4, 0})}};
}

void ExpectEqual(const Weights& got, const Weights& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [key, tensor] : expected) {
    ASSERT_EQ(got.count(key), 1u) << key;
    EXPECT_TRUE(got.at(key).equal(tensor)) << key;
  }
}

// A safetensors file of one header.
std::string File(const std::string& header, const std::string& values) {
  const uint64_t length = header.size();
  return absl::StrCat(std::string(reinterpret_cast<const char*>(&length), 8), header, values);
}

std::string ErrorOf(const absl::Status& status) {
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

class WeightsFile : public ::testing::TestWithParam<std::string> {
 protected:
  std::string path() const { return dir_.File("weights" + GetParam()); }
  TempDir dir_;
};

TEST_P(WeightsFile, ReadWeights_WhatWriteWeightsWrote_Equal) {
  ASSERT_TRUE(WriteWeights(path(), Some()).ok());
  const absl::StatusOr<Weights> read = ReadWeights(path());
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectEqual(*read, Some());
}

TEST_P(WeightsFile, ReadWeights_CutShort_InvalidArgumentNamesFile) {
  ASSERT_TRUE(WriteWeights(path(), Some()).ok());
  const std::string whole = ReadFile(path());
  for (const size_t size : {whole.size() - 1, whole.size() / 2, size_t{30}, size_t{5}}) {
    WriteFile(path(), whole.substr(0, size));
    EXPECT_THAT(ErrorOf(ReadWeights(path()).status()), HasSubstr(path())) << size;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, WeightsFile, ::testing::Values(".safetensors", ".pt", ".pth"),
                         [](const auto& info) { return info.param.substr(1); });

// The pieces of a file, as they are given to be written.
struct ByteSpans {
  WritePiece Taker() {
    return [this](absl::string_view piece) {
      starts.push_back(piece.data());
      text.append(piece.data(), piece.size());
      if (!IsOfATensor(piece)) most_others = std::max(most_others, piece.size());
    };
  }
  bool IsOfATensor(absl::string_view piece) const {
    return std::any_of(weights.begin(), weights.end(), [piece](const auto& one) {
      return one.second.data_ptr() == piece.data() && one.second.nbytes() == piece.size();
    });
  }

  const Weights weights;
  std::vector<const void*> starts;
  std::string text;
  size_t most_others = 0;  // bytes of a piece that is not a whole tensor in its own memory
};

constexpr int64_t kLarge = 1 << 20;
constexpr size_t kSmall = 4096;

class StreamedWeights : public ::testing::TestWithParam<bool> {
 protected:
  static void Stream(ByteSpans* pieces) {
    if (GetParam()) {
      ASSERT_TRUE(StreamTorchFile(pieces->weights, pieces->Taker()).ok());
    } else {
      StreamSafetensors(pieces->weights, pieces->Taker());
    }
  }
  static absl::StatusOr<Weights> Parse(const std::string& text) {
    return GetParam() ? ParseTorchFile(text) : ParseSafetensors(text);
  }
};

TEST_P(StreamedWeights, Stream_ContiguousTensors_AreWrittenFromTheirOwnMemory) {
  ByteSpans pieces{{{"a", torch::rand({kLarge})}, {"b", torch::rand({3, kLarge})}}, {}, "", 0};
  Stream(&pieces);
  for (const auto& [key, tensor] : pieces.weights) {
    EXPECT_THAT(pieces.starts, ::testing::Contains(tensor.data_ptr())) << key;
  }
  EXPECT_LE(pieces.most_others, kSmall);
  ExpectEqual(Parse(pieces.text).value(), pieces.weights);
}

TEST_P(StreamedWeights, Stream_TransposedTensor_IsCopiedAlone) {
  ByteSpans pieces{{{"a", torch::rand({kLarge})}, {"b", torch::rand({2, 300}).t()}}, {}, "", 0};
  Stream(&pieces);
  EXPECT_LE(pieces.most_others, kSmall);
  ExpectEqual(Parse(pieces.text).value(), pieces.weights);
}

INSTANTIATE_TEST_SUITE_P(Formats, StreamedWeights, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "TorchSave" : "Safetensors"; });

TEST(WriteWeights, WriteWeights_OtherName_InvalidArgument) {
  EXPECT_THAT(ErrorOf(WriteWeights("weights.bin", Some())),
              HasSubstr("got 'weights.bin', expected a name that ends in .safetensors"));
}

TEST(ReadWeights, ReadWeights_NoFile_NotFound) {
  EXPECT_TRUE(absl::IsNotFound(ReadWeights("/nowhere/weights.pt").status()));
}

// A checkpoint is a folder, too.
TEST(ReadWeights, ReadWeights_Folder_NotFound) {
  EXPECT_TRUE(absl::IsNotFound(ReadWeights(TempDir().path()).status()));
}

TEST(ParseSafetensors, ParseSafetensors_OffsetsBeyondFile_SaysBoth) {
  const std::string header = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})";
  EXPECT_THAT(ErrorOf(ParseSafetensors(File(header, std::string(8, 'x'))).status()),
              HasSubstr("'w': got offsets 4 to 12, expected offsets within the 8 bytes"));
}

TEST(ParseSafetensors, ParseSafetensors_OffsetsOfAnotherShape_SaysBoth) {
  const std::string header = R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})";
  EXPECT_THAT(ErrorOf(ParseSafetensors(File(header, std::string(8, 'x'))).status()),
              HasSubstr("'w': got 8 bytes, expected 12 for [3] of \"F32\""));
}

TEST(ParseSafetensors, ParseSafetensors_ShapeOfMoreThanMemory_Refused) {
  const std::string header =
      R"({"w":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})";
  EXPECT_THAT(ErrorOf(ParseSafetensors(File(header, "")).status()), HasSubstr("'w': got 0 bytes"));
}

TEST(ParseSafetensors, ParseSafetensors_UnknownType_NamesIt) {
  const std::string header = R"({"w":{"dtype":"F8","shape":[2],"data_offsets":[0,2]}})";
  EXPECT_THAT(ErrorOf(ParseSafetensors(File(header, "xx")).status()), HasSubstr("got \"F8\""));
}

TEST(ParseSafetensors, ParseSafetensors_EntriesOfAnotherForm_SayWhatIsExpected) {
  const std::vector<std::pair<std::string, std::string>> entries = {
      {"3", "'w': got 3, expected an object"},
      {R"({"shape":[],"data_offsets":[0,0]})", "'w': got no dtype, expected a dtype"},
      {R"({"dtype":7,"shape":[],"data_offsets":[0,0]})", "'w': got 7, expected a dtype"},
      {R"({"dtype":"F32","data_offsets":[0,0]})", "'w': got null, expected shape as a list"},
      {R"({"dtype":"F32","shape":[-1],"data_offsets":[0,0]})", "'w': got [-1], expected shape"},
      {R"({"dtype":"F32","shape":[1.5],"data_offsets":[0,0]})", "'w': got [1.5], expected shape"},
      {R"({"dtype":"F32","shape":[],"data_offsets":[0]})", "'w': got [0], expected data_offsets"},
      {R"({"dtype":"F32","shape":[],"data_offsets":[4,0]})", "'w': got offsets 4 to 0"},
      {R"({"dtype":"F32","shape":[],"data_offsets":[0,18446744073709551615]})",
       "'w': got offsets 0 to -1"}};
  for (const auto& [entry, expected] : entries) {
    EXPECT_THAT(ErrorOf(ParseSafetensors(File(R"({"w":)" + entry + "}", "valu")).status()),
                HasSubstr(expected));
  }
}

TEST(ParseSafetensors, ParseSafetensors_HeaderThatIsNoObject_SaysSo) {
  for (const char* header : {"", "[]", "{", "3", "\xff"}) {
    EXPECT_THAT(ErrorOf(ParseSafetensors(File(header, "")).status()),
                HasSubstr("header: got something else, expected a JSON object of tensors"));
  }
}

// To show it would be a recursion for each bracket.
TEST(ParseSafetensors, ParseSafetensors_DeepBrackets_AreRefusedAsOthers) {
  const std::string deep = std::string(1000000, '[') + std::string(1000000, ']');
  EXPECT_THAT(ErrorOf(ParseSafetensors(File(R"({"w":)" + deep + "}", "")).status()),
              HasSubstr("expected an object"));
  const std::string shape = R"({"w":{"dtype":"F32","shape":)" + deep + "}}";
  EXPECT_THAT(ErrorOf(ParseSafetensors(File(shape, "")).status()), HasSubstr("expected shape"));
}

// What Python's torch.save makes of a module's state dict, which is an OrderedDict with
// _metadata, of a transposed tensor and of a parameter.
TEST(TorchSave, ReadWeights_StateDictOfPython_ValuesOfPython) {
  const TempDir dir;
  const auto answer = AskOracle("weights.py", {"save", dir.File("state.pth")});
  ASSERT_TRUE(answer.ok()) << answer.status();
  const absl::StatusOr<Weights> read = ReadWeights(dir.File("state.pth"));
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), answer->size());
  for (const auto& [key, values] : answer->items()) {
    const torch::Tensor flat = read->at(key).flatten().to(torch::kDouble);
    EXPECT_EQ(std::vector<double>(flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()),
              values.get<std::vector<double>>())
        << key;
  }
}

TEST(TorchSave, ReadWeights_CheckpointOfMore_NamesTheKey) {
  const TempDir dir;
  ASSERT_TRUE(AskOracle("weights.py", {"checkpoint", dir.File("all.pt")}).ok());
  EXPECT_THAT(ErrorOf(ReadWeights(dir.File("all.pt")).status()),
              HasSubstr("'epoch': value: got something else, expected a dense tensor"));
}

TEST(TorchSave, WriteWeights_TorchFile_PythonReadsIt) {
  const TempDir dir;
  ASSERT_TRUE(WriteWeights(dir.File("ours.pt"), Some()).ok());
  const auto answer = AskOracle("weights.py", {"load", dir.File("ours.pt")});
  ASSERT_TRUE(answer.ok()) << answer.status();
  const torch::Tensor expected = Some().at("a.weight").flatten().to(torch::kDouble);
  const auto got = (*answer)["a.weight"].get<std::vector<double>>();
  EXPECT_TRUE(torch::tensor(got, torch::kDouble).equal(expected));
  EXPECT_EQ((*answer)["a.num_batches_tracked"], nlohmann::json({7.0}));
}

// A file of one tensor "w", which is pickled so, in a storage of these bytes.
std::string TorchFileWith(const std::string& tensor, const std::string& storage) {
  const TensorStorage values = {static_cast<int64_t>(storage.size()),
                                [&storage](const WritePiece& write) {
                                  write(storage);
                                  return absl::OkStatus();
                                }};
  std::string file;
  const WritePiece take = [&file](absl::string_view piece) { absl::StrAppend(&file, piece); };
  const std::string dict = PickledDict({{PickledText("w"), tensor}});
  EXPECT_TRUE(StreamTorchArchive(PickleOf(dict), {values}, take).ok());
  return file;
}

// The same of `size` floats.
std::string TorchFileOf(int64_t size, const std::string& storage) {
  return TorchFileWith(PickledTensor({"w", TensorType::kFloat32, {size}}, 0), storage);
}

std::string PickledNumbers(const std::vector<int64_t>& numbers) {
  std::vector<std::string> values;
  for (const int64_t number : numbers) values.push_back(PickledInteger(number));
  return PickledTuple(values);
}

// A part of the storage 0, 1, 2, 3, 4, 5, as torch.save writes a view of a tensor.
absl::StatusOr<Weights> ParseView(int64_t offset, const std::vector<int64_t>& sizes,
                                  const std::vector<int64_t>& strides) {
  const std::string id =
      absl::StrCat(PickledTuple({PickledText("storage"), "ctorch\nFloatStorage\n", PickledText("0"),
                                 PickledText("cpu"), PickledInteger(6)}),
                   "Q");
  const std::string arguments =
      PickledTuple({id, PickledInteger(offset), PickledNumbers(sizes), PickledNumbers(strides)});
  const torch::Tensor values = torch::arange(6, torch::kFloat);
  return ParseTorchFile(
      TorchFileWith(absl::StrCat("ctorch._utils\n_rebuild_tensor_v2\n", arguments, "R"),
                    {static_cast<const char*>(values.data_ptr()), values.nbytes()}));
}

TEST(TorchSave, ParseTorchFile_ViewOfATensor_HasItsElements) {
  const absl::StatusOr<Weights> view = ParseView(1, {2, 2}, {1, 3});
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_TRUE(view->at("w").equal(torch::tensor({{1.0F, 4.0F}, {2.0F, 5.0F}})));
  EXPECT_THAT(ErrorOf(ParseView(2, {2, 2}, {1, 3}).status()),
              HasSubstr("'w': value: got a tensor beyond its storage"));
}

TEST(TorchSave, ParseTorchFile_ViewThatIsNone_IsRefused) {
  for (const auto& status :
       {ParseView(-1, {2}, {1}).status(), ParseView(0, {-2}, {1}).status(),
        ParseView(3, {2}, {-1}).status(), ParseView(0, {2, 2}, {1}).status()}) {
    EXPECT_THAT(ErrorOf(status), HasSubstr("'w': value: got something else, expected a dense"));
  }
}

TEST(TorchSave, ParseTorchFile_TensorLongerThanItsStorage_NamesKeyAndElements) {
  const std::string two_floats(8, '\0');
  const absl::StatusOr<Weights> fits = ParseTorchFile(TorchFileOf(2, two_floats));
  ASSERT_TRUE(fits.ok()) << fits.status();
  EXPECT_TRUE(fits->at("w").equal(torch::zeros({2})));
  EXPECT_EQ(ErrorOf(ParseTorchFile(TorchFileOf(3, two_floats)).status()),
            "'w': value: got a tensor beyond its storage, expected one within 2 elements");
}

// Torch allocates as many elements as a storage's id says.
TEST(TorchSave, StreamTorchFile_StorageOfATensor_HasItsElements) {
  std::stringstream file;
  const WritePiece take = [&file](absl::string_view piece) { file << piece; };
  ASSERT_TRUE(StreamTorchFile({{"w", torch::ones({2, 3})}}, take).ok());
  caffe2::serialize::PyTorchStreamReader reader(&file);
  const auto [data, size] = reader.getRecord("data.pkl");
  const absl::StatusOr<PickleValue> dict =
      ParsePickle(absl::string_view(static_cast<const char*>(data.get()), size));
  ASSERT_TRUE(dict.ok()) << dict.status();
  const PickleValue& call = dict->items.at(1);
  ASSERT_TRUE(call.IsCall("torch._utils _rebuild_tensor_v2"));
  const PickleValue& id = call.items.at(1).items.at(0);
  EXPECT_EQ(id.items.at(1).text, "torch FloatStorage");
  EXPECT_EQ(id.items.at(4).number, 6);
}

class LoadWeightsTest : public ::testing::Test {
 protected:
  LoadWeightsTest() {
    for (auto& [key, tensor] : other_) tensor = tensor.detach() + 1;
  }
  absl::Status Load(absl::string_view replaced = "") {
    return LoadWeights(other_, replaced, model_.get());
  }
  const std::shared_ptr<Model> model_ = MakeModel("lenet", 10).value();
  Weights other_ = WeightsOf(*model_);
};

TEST_F(LoadWeightsTest, LoadWeights_SameKeys_ModelHasThem) {
  ASSERT_TRUE(Load().ok());
  ExpectEqual(WeightsOf(*model_), other_);
}

TEST_F(LoadWeightsTest, LoadWeights_KeyMissing_NamesItAndShape) {
  other_.erase("conv2.bias");
  EXPECT_EQ(ErrorOf(Load()), "weights: got no 'conv2.bias', expected Float [16]");
}

TEST_F(LoadWeightsTest, LoadWeights_KeyTooMuch_NamesIt) {
  other_.emplace("conv3.bias", torch::zeros({2}));
  EXPECT_EQ(ErrorOf(Load()),
            "weights: got 'conv3.bias' Float [2], expected no such key in this model");
}

TEST_F(LoadWeightsTest, LoadWeights_OtherShape_SaysBothAndChangesNothing) {
  other_["conv2.bias"] = torch::zeros({15});
  const torch::Tensor before = model_->parameters().front().clone();
  EXPECT_EQ(ErrorOf(Load()), "weights: 'conv2.bias': got Float [15], expected Float [16]");
  EXPECT_TRUE(model_->parameters().front().equal(before));
}

TEST_F(LoadWeightsTest, LoadWeights_OtherType_SaysBoth) {
  other_["conv2.bias"] = torch::zeros({16}, torch::kHalf);
  EXPECT_EQ(ErrorOf(Load()), "weights: 'conv2.bias': got Half [16], expected Float [16]");
}

TEST_F(LoadWeightsTest, LoadWeights_ReplacedClassifierOfMoreClasses_RestLoaded) {
  other_["classifier.4.bias"] = torch::zeros({1000});
  const torch::Tensor before = model_->named_parameters()["classifier.0.bias"].clone();
  ASSERT_TRUE(Load("classifier").ok());
  EXPECT_TRUE(model_->named_parameters()["conv1.bias"].equal(other_.at("conv1.bias")));
  EXPECT_TRUE(model_->named_parameters()["classifier.0.bias"].equal(before));
}

// Of a run that already had the new classifier.
TEST_F(LoadWeightsTest, LoadWeights_ReplacedClassifierThatFits_IsLoadedToo) {
  ASSERT_TRUE(Load("classifier").ok());
  ExpectEqual(WeightsOf(*model_), other_);
}

TEST_F(LoadWeightsTest, LoadWeights_PartOfAReplacedClassifier_IsNotLoadedAlone) {
  other_.erase("classifier.4.bias");
  const torch::Tensor before = model_->named_parameters()["classifier.0.bias"].clone();
  ASSERT_TRUE(Load("classifier").ok());
  EXPECT_TRUE(model_->named_parameters()["classifier.0.bias"].equal(before));
}

TEST(LoadWeights, LoadWeights_KeysOfOldDenseNets_AreTodays) {
  torch::nn::Module blocks;
  blocks.register_module("denseblock1", std::make_shared<torch::nn::Module>())
      ->register_module("denselayer1", std::make_shared<torch::nn::Module>())
      ->register_module("norm1", torch::nn::BatchNorm2d(2));
  const torch::Tensor ones = torch::ones({2});
  const std::string old = "denseblock1.denselayer1.norm.1.";
  ASSERT_TRUE(LoadWeights({{old + "weight", 3 * ones},
                           {old + "bias", ones},
                           {old + "running_mean", ones},
                           {old + "running_var", ones}},
                          "", &blocks)
                  .ok());
  EXPECT_TRUE(blocks.parameters().front().equal(3 * ones));
}

}  // namespace
}  // namespace gradwire
