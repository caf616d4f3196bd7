// Package clitest has what tests of the command line share: golden files, the real services in memory behind a Script, and a hand-written
// stand-in for the executor. A task of the stand-in is a tape: a test appends events, and watchers read them.
package clitest
