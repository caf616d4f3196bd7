// Package goal reads what a person wants, without a language model: it sets aside what is to be taken literally (quoted text,
// paths, globs, JSON, key=value), splits the rest into clauses, and finds in each what is asked for and about what.
// It knows wording only: not which tools there are, nor what was done before.
package goal
