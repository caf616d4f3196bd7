package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	bolterrors "go.etcd.io/bbolt/errors"
)

// errPage is a panic of bbolt about a page that it cannot read.
var errPage = errors.New("a page cannot be read")

// Explain adds path and advice to an error of opening or reading the store in a folder, if the error says that the file is damaged.
func Explain(dir string, err error) error {
	if err == nil || dir == "" || !isDamage(err) {
		return err
	}
	return fmt.Errorf("%s is damaged: %w; restore it from a backup, or move it away and start again: registered MCP servers, approved tools and "+
		"logins are then to be made again", filepath.Join(dir, FileName), err)
}

func isDamage(err error) bool {
	for _, target := range []error{errPage, io.ErrUnexpectedEOF, bolterrors.ErrInvalid, bolterrors.ErrChecksum, bolterrors.ErrVersionMismatch} {
		if errors.Is(err, target) {
			return true
		}
	}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	var date *time.ParseError
	return errors.As(err, &syntax) || errors.As(err, &kind) || errors.As(err, &date)
}

// recoverPage turns a panic of bbolt into an error.
func recoverPage(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: %v", errPage, p)
	}
}
