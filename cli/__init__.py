"""What commands of `gradwire` do in Python. It is a package, not only a folder, so that no other
package of that name comes first."""
