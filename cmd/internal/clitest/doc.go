// Package clitest has golden files, the real services in memory behind a Script, and a hand-written fake of the executor for the tests of the
// command line. A task of the fake executor is a Tape: a test appends events, and watchers read them.
package clitest
