// Package cli is the command line of pawl: its grammar, help and completion, and the run of one command line. The commands are in the
// packages task, mcp and admin, a struct each that kong fills, with a method Run.
package cli
