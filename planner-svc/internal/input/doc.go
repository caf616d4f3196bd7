// Package input makes, mends and asks for the inputs of tools by their schemas. It finds the values that a sentence names (numbers with units, dates,
// quoted texts, paths, names …) and gives them to parameters by type, format, unit, name and description; what a person supplied and what an error
// complained about change an input. It knows no particular tool and calls nothing.
package input
