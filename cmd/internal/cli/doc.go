// Package cli is the command line of pawl: one file per command, each a struct that kong fills and a Run that talks to a
// server through the generated clients. It shows through package render and asks through package prompt. It knows no
// service's inside.
package cli
