// Package request reads HTTP requests into the messages of the contracts, and says exactly what is wrong with one that
// does not fit: line and column, the unknown field and the name that was probably meant, the values an enum has, the
// number that would be rounded. It must not know what the messages mean.
package request
