// Package clitest has golden files and hand-written fakes of the services for the tests of the command line. A task of the fake executor is a
// Tape: a test appends events, and watchers read them.
package clitest
