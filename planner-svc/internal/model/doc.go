// Package model is what reasoning asks and what answers it: a request with a purpose, a prompt that is rendered only if it
// is read, and the facts that the prompt is rendered from. A language model reads the prompt and keeps to the schema; a
// model that computes reads the facts, and may answer in values. The package knows no provider and no tool.
package model
