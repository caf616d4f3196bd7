package pack

import storagev1 "pawl.dev/executor-svc/internal/storage/v1"

// Split returns a checkpoint's parts in wire form.
func Split(c *storagev1.Checkpoint, facts Facts) (hot, notes []byte, err error) {
	p := &Checkpoint{}
	err = p.split(c, facts)
	return p.hot, p.notes, err
}
