package registry

// Pinning says which tools need an approval before they are used, once the tools of a server were seen for the first time.
type Pinning int

// The ways to pin. Stored by name: see String and ParsePinning.
const (
	// PinChanges lets neither changed tools nor new ones through: a changed tool under a new name is a new tool.
	PinChanges Pinning = iota
	// PinAllowNew lets new tools through when they are first seen, and no changed ones.
	PinAllowNew
	// PinNothing lets everything through. Approvals are not looked at, and are kept for when they are again.
	PinNothing
)

var pinnings = []string{"approve_changes", "allow_new", "trust_all"}

// Pinnings lists the names.
func Pinnings() []string { return append([]string(nil), pinnings...) }

func (p Pinning) String() string { return pinnings[p] }

// ParsePinning reads a name; false if it is none.
func ParsePinning(name string) (Pinning, bool) {
	for i, n := range pinnings {
		if n == name {
			return Pinning(i), true
		}
	}
	return 0, false
}
