//go:build !unix

package identity

// lockDir does nothing: folders cannot be locked here. Of two processes that rewrite the file in the same instant, the later one wins.
func lockDir(string) (unlock func(), err error) { return func() {}, nil }
