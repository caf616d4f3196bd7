package mcp

// Stderr is the end of what a child process wrote to its stderr, without the secrets that it was given.
type Stderr struct {
	Text string
	Cut  bool // there was more before it
}

// Talker is a Client whose server writes to a stderr that the pool keeps.
type Talker interface {
	Stderr() Stderr
}

// StderrOf returns what a client's server wrote; nothing where it has no stderr.
func StderrOf(c Client) Stderr {
	if t, ok := c.(Talker); ok {
		return t.Stderr()
	}
	return Stderr{}
}
