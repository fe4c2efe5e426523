"""The Python of `gradwire`'s commands. It is a package, not only a folder, so that no other
package of that name comes first."""
