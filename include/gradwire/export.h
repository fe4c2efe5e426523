#ifndef GRADWIRE_EXPORT_H_
#define GRADWIRE_EXPORT_H_

// Marks symbols that libgradwire.so exports; all others are hidden.
#define GRADWIRE_EXPORT __attribute__((visibility("default")))

// Marks hidden members of exported classes.
#define GRADWIRE_HIDDEN __attribute__((visibility("hidden")))

#endif  // GRADWIRE_EXPORT_H_
