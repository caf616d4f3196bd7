// Package offline is the model `offline`: a planner without a language model. It reads the goal by patterns, chooses tools by
// what they are for, fills inputs by schema and writes answers from templates. The same context always gives the same
// bytes. It is honest: what it cannot match it says, and it never guesses an input.
package offline
