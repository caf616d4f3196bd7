// Package rig starts Pawl for tests (in this process, as the real binary, as four processes) and speaks to it (over gRPC,
// over REST), so that one test runs everywhere.
package rig
