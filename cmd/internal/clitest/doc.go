// Package clitest helps to test the command line: golden files, the real services in memory behind a Script, and a hand-written fake of the
// executor. A task of the fake executor is a Tape: a test appends events, and watchers read them.
package clitest
