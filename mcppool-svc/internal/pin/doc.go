// Package pin remembers which definitions of tools may be used, for each server: those seen when it was used first, and
// those approved since. It looks at definitions alone, not at who calls, and reaches no server.
package pin
