// Package rig starts Pawl for tests (in this process, as the real binary, or as four processes) and calls it over gRPC or
// REST, so that one test covers all of them.
package rig
