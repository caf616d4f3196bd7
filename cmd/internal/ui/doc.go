// Package ui is the terminal side of the program: text made safe and fitted to the terminal, tables, JSON, questions and forms,
// interrupts, and the errors that end a command. It makes no calls to services.
package ui
