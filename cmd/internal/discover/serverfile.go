package discover

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

// serverFile names, in a data folder, which process serves it and where. It does not say whether that process still lives.
const serverFile = "server.json"

// ServerInfo says which process serves a data folder.
type ServerInfo struct {
	PID       int       `json:"pid"`
	GRPC      string    `json:"grpc,omitempty"` // empty: it does not listen there
	HTTP      string    `json:"http,omitempty"`
	Version   string    `json:"version,omitempty"`
	Started   time.Time `json:"started,omitzero"`
	Workspace string    `json:"workspace,omitempty"`
	DataDir   string    `json:"data,omitempty"`
	// OwnSettings reports that the server has MCP servers, models or keys from its own files, which other commands do not know.
	OwnSettings bool `json:"ownSettings,omitempty"`
}

// WriteServerFile puts the note there as a whole, readable by its owner alone.
func WriteServerFile(dataDir string, info ServerInfo) error {
	raw, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", serverFile, err)
	}
	return WriteFile(filepath.Join(dataDir, serverFile), func(f *os.File) error {
		_, err := f.Write(append(raw, '\n'))
		return err
	})
}

// WriteFile replaces a file by what write writes, as a whole or not at all. It is readable by its owner alone.
func WriteFile(path string, write func(*os.File) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	err = errors.Join(write(tmp), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// ReadServerFile returns the note; nil if it is missing or cannot be understood, as a newer or a broken one.
func ReadServerFile(dataDir string) *ServerInfo {
	raw, err := os.ReadFile(filepath.Join(dataDir, serverFile))
	if err != nil {
		return nil
	}
	var info ServerInfo
	if json.Unmarshal(raw, &info) != nil || info.PID <= 0 {
		return nil
	}
	return &info
}

// RemoveServerFile takes the note away if it is the one of process pid.
func RemoveServerFile(dataDir string, pid int) error {
	info := ReadServerFile(dataDir)
	if info == nil || info.PID != pid {
		return nil
	}
	if err := os.Remove(filepath.Join(dataDir, serverFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", serverFile, err)
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
