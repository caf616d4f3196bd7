// Package input makes, mends and asks for the inputs of tools by their schemas: from what a goal says, from what a person
// supplied, from what an error complained about. It is deterministic and calls nothing; a model that reads prompts does
// the same in its own way.
package input
