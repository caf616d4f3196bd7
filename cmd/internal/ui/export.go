package ui

import (
	"errors"
	"io"

	"pawl.dev/services/privatefile"
)

// Export writes a document that arrives in pieces to a file, which appears once it is complete, or to standard output if file is "". next returns io.EOF after
// the last piece. Export returns the size of the document.
func (u *UI) Export(file string, next func() ([]byte, error)) (n int64, err error) {
	copyTo := func(w io.Writer) error {
		for {
			piece, err := next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			written, err := w.Write(piece)
			n += int64(written)
			if err != nil {
				return Errorf("write the document: %v", err)
			}
		}
	}
	if file == "" {
		err = copyTo(TerminalJSON(u.Out))
	} else {
		err = privatefile.Write(file, copyTo)
	}
	return n, err
}
