#include "common/tensors/zip_writer.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using testing::TempDir;
using testing::WriteFile;

// Adds a record of this text, which is passed in two pieces.
absl::Status Add(ZipWriter* zip, const std::string& name, const std::string& text,
                 int64_t more = 0) {
  return zip->Add(name, static_cast<int64_t>(text.size()) + more, [&text](const WritePiece& write) {
    write(absl::string_view(text).substr(0, text.size() / 2));
    write(absl::string_view(text).substr(text.size() / 2));
    return absl::OkStatus();
  });
}

TEST(ZipWriter, Archive_PythonReadsItAndItsChecksumsFit) {
  std::string bytes;
  ZipWriter zip([&bytes](absl::string_view piece) { bytes.append(piece.data(), piece.size()); });
  ASSERT_TRUE(Add(&zip, "a/data.pkl", "first").ok());
  ASSERT_TRUE(Add(&zip, "a/data/0", std::string(1000, 'x')).ok());
  ASSERT_TRUE(Add(&zip, "a/empty", "").ok());
  zip.Finish();
  const TempDir dir;
  WriteFile(dir.File("archive.zip"), bytes);
  const std::string script =
      "import sys, zipfile\n"
      "archive = zipfile.ZipFile(sys.argv[1])\n"
      "assert archive.testzip() is None\n"
      "assert archive.namelist() == ['a/data.pkl', 'a/data/0', 'a/empty']\n"
      "assert archive.read('a/data.pkl') == b'first'\n"
      "assert archive.read('a/data/0') == b'x' * 1000\n";
  WriteFile(dir.File("check.py"), script);
  const std::string command =
      "/usr/bin/python3 " + dir.File("check.py") + " " + dir.File("archive.zip");
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(bytes.find(std::string(1000, 'x')) % 64, 0u);
}

TEST(ZipWriter, Add_OtherNumberOfBytes_IsRefused) {
  ZipWriter zip([](absl::string_view /*piece*/) {});
  const absl::Status status = Add(&zip, "a", "first", 1);
  EXPECT_EQ(status, absl::InternalError("a: got 5 bytes, expected 6"));
}

TEST(ZipWriter, Add_ContentFails_ReturnsItsError) {
  ZipWriter zip([](absl::string_view /*piece*/) {});
  EXPECT_EQ(zip.Add("a", 1, [](const WritePiece&) { return absl::DataLossError("damaged"); }),
            absl::DataLossError("damaged"));
}

}  // namespace
}  // namespace gradwire
