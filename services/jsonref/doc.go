// Package jsonref puts values into JSON templates. A string of a template that is exactly `${name}` or
// `${name.path.0.field}` is replaced by the value, with its type; within a longer string it is replaced by the value's
// text. `$${` stands for `${`. Everything else of the template, numbers above all, stays as it was written. The package
// does not know where values come from.
package jsonref
