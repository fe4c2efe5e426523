#ifndef GRADWIRE_EXPORT_H_
#define GRADWIRE_EXPORT_H_

// What libgradwire.so shows to programs; all else in it is hidden.
#define GRADWIRE_EXPORT __attribute__((visibility("default")))

#endif  // GRADWIRE_EXPORT_H_
