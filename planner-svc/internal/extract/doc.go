// Package extract finds the values that a sentence names (numbers with units, dates, quoted texts, paths, names …) and fills a tool's input
// with them, by type, format, unit, name and description of each property. It knows no particular tool.
package extract
