package console

import "io"

// Output writes to W and keeps the first error, for output that comes bit by bit.
type Output struct {
	W   io.Writer
	Err error
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	n, err := o.W.Write(p)
	if o.Err == nil {
		o.Err = err
	}
	return n, err
}
