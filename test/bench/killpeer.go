package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"time"
)

// killPeer does to the peer's server what killOnce does to the executor.
func (b *bench) killPeer(ctx context.Context) (a aftermath, err error) {
	r, err := b.startRestate(ctx)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	effects := filepath.Join(b.work, "peer.txt")
	var ids []string
	for i := range killed {
		id, err := r.send(ctx, effects, i)
		if err != nil {
			return a, err
		}
		ids = append(ids, id)
	}
	begun, err := countTo(ctx, effects, killed*stepsPerTask*2/5)
	if err != nil {
		return a, err
	}
	r.server.kill()
	at := time.Now()
	a.floor = time.Duration(stepsPerTask-begun/killed) * workTime
	if err := r.takeUp(ctx); err != nil {
		return a, err
	}
	if err := r.settle(ctx, ids); err != nil {
		return a, err
	}
	a.took, a.ended = time.Since(at), killed
	return a, a.count(effects)
}

// send starts a run without waiting for it.
func (r *restate) send(ctx context.Context, effects string, i int) (string, error) {
	body, err := json.Marshal(map[string]any{"path": effects, "name": fmt.Sprintf("task-%d", i), "milliseconds": workTime.Milliseconds()})
	if err != nil {
		return "", err
	}
	said, err := r.post(ctx, "http://"+r.ingress+"/BenchTS/Work/send", string(body))
	if err != nil {
		return "", err
	}
	var sent struct {
		InvocationID string `json:"invocationId"`
	}
	if err := json.Unmarshal([]byte(said), &sent); err != nil || sent.InvocationID == "" {
		return "", fmt.Errorf("the answer to a sent run is %q: %w", said, err)
	}
	return sent.InvocationID, nil
}

// settle waits until all runs have ended.
func (r *restate) settle(ctx context.Context, ids []string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var wg sync.WaitGroup
	failed := make(chan error, len(ids))
	for _, id := range ids {
		wg.Go(func() {
			if _, err := r.do(ctx, http.MethodGet, "http://"+r.ingress+"/restate/invocation/"+id+"/attach", ""); err != nil {
				failed <- err
			}
		})
	}
	wg.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}
