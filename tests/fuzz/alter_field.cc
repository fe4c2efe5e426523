#include "tests/fuzz/alter_field.h"

#include <cstring>

namespace gradwire {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

double NumberAsDouble(InputReader* input) {
  const uint64_t bits = input->Number();
  double value;
  std::memcpy(&value, &bits, sizeof(value));
  return bits < 256 ? static_cast<double>(bits) : value;
}

std::string TextFor(const FieldDescriptor& field, InputReader* input) {
  return field.type() == FieldDescriptor::TYPE_BYTES ? input->Bytes() : input->Text();
}

void Add(const FieldDescriptor* field, InputReader* input, Message* message) {
  const Reflection& reflection = *message->GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.AddUInt32(message, field, static_cast<uint32_t>(input->Number()));
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.AddUInt64(message, field, input->Number());
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.AddInt64(message, field, static_cast<int64_t>(input->Number()));
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.AddString(message, field, TextFor(*field, input));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return AlterField(input, reflection.AddMessage(message, field));
    default:  // there are no lists of others
      return;
  }
}

void Set(const FieldDescriptor* field, InputReader* input, Message* message) {
  const Reflection& reflection = *message->GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.SetUInt32(message, field, static_cast<uint32_t>(input->Number()));
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.SetUInt64(message, field, input->Number());
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.SetDouble(message, field, NumberAsDouble(input));
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.SetBool(message, field, input->Flag());
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection.SetEnumValue(message, field, static_cast<int>(input->Number()));
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.SetString(message, field, TextFor(*field, input));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return AlterField(input, reflection.MutableMessage(message, field));
    default:  // there are no others
      return;
  }
}

}  // namespace

void AlterField(InputReader* input, Message* message) {
  const auto& fields = *message->GetDescriptor();
  if (fields.field_count() == 0) return;
  const FieldDescriptor* field =
      fields.field(static_cast<int>(input->Below(static_cast<uint64_t>(fields.field_count()))));
  field->is_repeated() ? Add(field, input, message) : Set(field, input, message);
}

}  // namespace gradwire
