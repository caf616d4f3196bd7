// Package jsonref puts values into JSON templates. A string of a template that is exactly `${name}` or
// `${name.path.0.field}` becomes the value that is referred to, with its type; within a longer string the value becomes
// text. `$${` stands for `${`. Everything else of the template, numbers above all, stays as it was written. The package
// does not know where values come from.
package jsonref
