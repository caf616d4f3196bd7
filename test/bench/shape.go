package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.etcd.io/bbolt"
)

// shape is what the executor writes for one task of ten steps.
type shape struct {
	commits    int // durable commits, of which each adds one record
	checkpoint int // bytes of one, as it is while the task runs; replaced by each commit
	records    int // bytes of all records
	head       int // bytes of the head, written once
	index      int // bytes of all other entries, written once
}

// The parts of the journal that the shape is read from, as executor-svc/internal/journal/bolt/doc.go documents its keys.
const (
	taskKind       = 't'
	runnableKind   = 'a'
	partHead       = 0
	partCheckpoint = 1
	partRecord     = 2
	idLength       = 16
)

var errLayout = errors.New("the journal's keys are not those that this program knows: see shape.go and the documentation of the bolt store")

// stored is one task as it is found in the file.
type stored struct {
	head, checkpoint, records, index int
	sizes                            []int // of the records, in their order
	running                          bool
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// readTasks finds all tasks of a journal.
func readTasks(path string) (map[string]*stored, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	tasks := map[string]*stored{}
	err = db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(_ []byte, bucket *bbolt.Bucket) error {
			return bucket.ForEach(func(k, v []byte) error {
				noteEntry(tasks, k, v)
				return nil
			})
		})
	})
	return tasks, err
}

// noteEntry adds an entry to the task it belongs to.
func noteEntry(tasks map[string]*stored, k, v []byte) {
	if len(k) <= idLength {
		return
	}
	id := string(k[len(k)-idLength:])
	part := byte(255)
	if k[0] == taskKind && len(k) > idLength+1 {
		id, part = string(k[1:1+idLength]), k[1+idLength]
	}
	t := tasks[id]
	if t == nil {
		t = &stored{}
		tasks[id] = t
	}
	size := len(k) + len(v)
	switch {
	case part == partHead:
		t.head += size
	case part == partCheckpoint:
		t.checkpoint = size
	case part == partRecord:
		t.records += size
		t.sizes = append(t.sizes, size)
	case k[0] == runnableKind:
		t.running = true
	default:
		t.index += size
	}
}

// shapeOf takes checkpoints from tasks that run, and the rest from those that have ended.
func shapeOf(tasks map[string]*stored) (shape, error) {
	var s shape
	running, ended := 0, 0
	for _, t := range tasks {
		switch {
		case t.checkpoint == 0 || t.head == 0:
			continue // an agent, or a task's entry of another kind
		case t.running:
			running++
			s.checkpoint += t.checkpoint
		default:
			ended++
			s.commits += len(t.sizes)
			s.records += t.records
			s.head += t.head
			s.index += t.index
		}
	}
	if running == 0 || ended == 0 {
		return s, fmt.Errorf("%d running and %d ended tasks: %w", running, ended, errLayout)
	}
	s.commits = (s.commits + ended/2) / ended
	s.checkpoint /= running
	s.records /= ended
	s.head /= ended
	s.index /= ended
	return s, nil
}
