package workspace

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// locate turns the path of a request into a clean one with slashes, relative
// to the root. It gives good answers to bad paths; what keeps requests inside
// is os.Root, which every access goes through.
func (s *Server) locate(requested string) (string, error) {
	if strings.ContainsRune(requested, 0) {
		return "", fmt.Errorf("%q is not a path: it holds a NUL character", requested)
	}
	p := requested
	if filepath.IsAbs(p) {
		p = s.relative(p)
	}
	p = path.Clean(filepath.ToSlash(p))
	if path.IsAbs(p) || p == ".." || strings.HasPrefix(p, "../") {
		return "", fmt.Errorf("%q is outside the workspace: give a path relative to its root, which is \".\"", requested)
	}
	return p, nil
}

// relative makes an absolute path inside the root relative to it, and returns
// any other as it is.
func (s *Server) relative(abs string) string {
	for _, root := range s.aliases {
		if rel, err := filepath.Rel(root, abs); err == nil && filepath.IsLocal(rel) {
			return rel
		}
	}
	return abs
}

// openRegular opens a regular file below dir. O_NONBLOCK keeps a named pipe
// that takes the file's place from blocking the open.
func openRegular(dir *os.Root, name string) (*os.File, fs.FileInfo, error) {
	f, err := dir.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("it is a %s, not a regular file", kindOf(info.Mode()).name)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// stat follows symbolic links that stay inside the root.
func (s *Server) stat(rel string) (fs.FileInfo, error) {
	return s.root.Stat(filepath.FromSlash(rel))
}

// openFile opens a file that is named in a request.
func (s *Server) openFile(rel string) (*os.File, fs.FileInfo, error) {
	info, err := s.stat(rel)
	if err != nil {
		return nil, nil, s.explain(rel, err)
	}
	if info.IsDir() {
		return nil, nil, fmt.Errorf("%q is a directory: use list_directory to see what is in it", rel)
	}
	// Checked before opening too: opening a device can have an effect.
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%q is a %s, not a regular file: it cannot be read", rel, kindOf(info.Mode()).name)
	}
	f, info, err := openRegular(s.root, rel)
	if err != nil {
		return nil, nil, s.explain(rel, err)
	}
	return f, info, nil
}

// openDir opens a folder that is named in a request.
func (s *Server) openDir(rel string) (*os.Root, error) {
	info, err := s.stat(rel)
	if err != nil {
		return nil, s.explain(rel, err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%q is not a directory: use read_file or get_file_info for it, or name the folder %q", rel, path.Dir(rel))
	}
	dir, err := s.root.OpenRoot(filepath.FromSlash(rel))
	if err != nil {
		return nil, s.explain(rel, err)
	}
	return dir, nil
}

// kind is what tools say of a file that is not a regular one.
type kind struct {
	mode fs.FileMode
	typ  string // as tools show it
	name string // for messages
	mime string // of the freedesktop shared MIME database
}

var kinds = []kind{
	{fs.ModeDir, "directory", "directory", "inode/directory"},
	{fs.ModeSymlink, "symlink", "symbolic link", "application/octet-stream"},
	{fs.ModeNamedPipe, "other", "named pipe", "inode/fifo"},
	{fs.ModeSocket, "other", "socket", "inode/socket"},
	{fs.ModeCharDevice, "other", "device", "inode/chardevice"},
	{fs.ModeDevice, "other", "device", "inode/blockdevice"},
}

func kindOf(mode fs.FileMode) kind {
	for _, k := range kinds {
		if mode&k.mode != 0 {
			return k
		}
	}
	if mode.IsRegular() {
		return kind{typ: "file", name: "regular file", mime: "application/octet-stream"}
	}
	return kind{typ: "other", name: "special file", mime: "application/octet-stream"}
}
