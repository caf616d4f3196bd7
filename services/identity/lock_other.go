//go:build !unix

package identity

// lockDir does nothing, because folders cannot be locked here. If two processes rewrite the key file at the same time, the later one wins.
func lockDir(string) (unlock func(), err error) { return func() {}, nil }
