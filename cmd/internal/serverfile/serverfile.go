// Package serverfile keeps server.json: the note in a data folder that says which process serves it and where. It is
// how one command finds another. It does not say whether that process still lives; who reads it must ask.
package serverfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Name is the file's name in the data folder.
const Name = "server.json"

// Info says which process serves a data folder.
type Info struct {
	PID       int       `json:"pid"`
	GRPC      string    `json:"grpc,omitempty"` // empty: it does not listen there
	HTTP      string    `json:"http,omitempty"`
	Version   string    `json:"version,omitempty"`
	Started   time.Time `json:"started"`
	Workspace string    `json:"workspace,omitempty"`
	DataDir   string    `json:"data,omitempty"`
}

// Write puts the note there as a whole, readable by its owner alone.
func Write(dataDir string, info Info) error {
	raw, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", Name, err)
	}
	tmp, err := os.CreateTemp(dataDir, Name+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", Name, err)
	}
	_, err = tmp.Write(append(raw, '\n'))
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), filepath.Join(dataDir, Name))
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return fmt.Errorf("write %s: %w", Name, err)
	}
	return nil
}

// Read returns the note; nil where there is none or it cannot be understood (a newer or a broken one says nothing).
func Read(dataDir string) *Info {
	raw, err := os.ReadFile(filepath.Join(dataDir, Name))
	if err != nil {
		return nil
	}
	var info Info
	if json.Unmarshal(raw, &info) != nil || info.PID <= 0 {
		return nil
	}
	return &info
}

// Remove takes the note away if it is the one of process pid.
func Remove(dataDir string, pid int) error {
	info := Read(dataDir)
	if info == nil || info.PID != pid {
		return nil
	}
	if err := os.Remove(filepath.Join(dataDir, Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", Name, err)
	}
	return nil
}

// Alive says whether a process of that id exists.
func Alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	err = p.Signal(syscall.Signal(0))
	return !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, syscall.ESRCH)
}
