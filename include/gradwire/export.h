#ifndef GRADWIRE_EXPORT_H_
#define GRADWIRE_EXPORT_H_

// What libgradwire.so shows to programs; all else in it is hidden.
#define GRADWIRE_EXPORT __attribute__((visibility("default")))

// What is inside of a class that is shown.
#define GRADWIRE_HIDDEN __attribute__((visibility("hidden")))

#endif  // GRADWIRE_EXPORT_H_
