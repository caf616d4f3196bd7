// Command bench measures Pawl beside a peer and beside the bare store, in one run, and writes docs/performance.md. It
// starts real processes, built from this tree, and knows them from outside only: their API, their flags, /proc and the
// journal's file. The executor alone is measured by a Go benchmark of that module, which this program runs.
package main
