// Package similar finds the names that somebody may have meant by one that is not known. It must not know what they are names of.
package similar
