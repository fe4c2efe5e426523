#ifndef GRADWIRE_TESTS_FUZZ_ALTER_FIELD_H_
#define GRADWIRE_TESTS_FUZZ_ALTER_FIELD_H_

#include <google/protobuf/message.h>

#include "tests/fuzz/input_reader.h"

namespace gradwire {

// Sets a field of the message, or of one in it, to what `input` says; of a list it adds one.
void AlterField(InputReader* input, google::protobuf::Message* message);

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_FUZZ_ALTER_FIELD_H_
