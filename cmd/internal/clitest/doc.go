// Package clitest has what tests of the command line share: golden files, and hand-written stand-ins for the services. A task of a stand-in is
// a tape: a test appends events, and watchers read them.
package clitest
