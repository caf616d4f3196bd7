package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// bench is one run of this program.
type bench struct {
	options
	root, work string
	programs   programs
	machine    machine
	began      time.Time
	folders    int
	// peerFolder is where the peer keeps its data, once it was started.
	peerFolder string
}

func (b *bench) logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

func (b *bench) wants(part string) bool { return slices.Contains(b.parts, part) }

// few is n, or a tenth of it for a quick look.
func (b *bench) few(n int) int {
	if b.quick {
		return n / 10
	}
	return n
}

// folder makes a data folder.
func (b *bench) folder() (string, error) { return os.MkdirTemp(b.work, "data-") }

// measure does all parts. One that fails says so in the document, and the others go on.
func (b *bench) measure(ctx context.Context) (string, error) {
	doc := &document{}
	b.preface(doc)
	for _, p := range []struct {
		name, title string
		run         func(context.Context, *document) error
	}{
		{"suite", "The whole suite, beside Restate", b.suite},
		{"startup", "Start to serving", b.startup},
		{"waiting", "Waiting tasks", b.waiting},
		{"watch", "From a commit to its watcher", b.watching},
		{"approve", "From an approval to the next step", b.approving},
		{"pool", "The MCP pool beside mcp-go alone", b.poolAlone},
		{"kill", "Killed with 100 tasks in flight", b.killing},
	} {
		if !b.wants(p.name) {
			continue
		}
		b.logf("%s", p.title)
		if err := b.awaitQuiet(ctx); err != nil {
			return "", err
		}
		doc.heading(p.title)
		if err := p.run(ctx, doc); err != nil {
			if ctx.Err() != nil {
				return "", ctx.Err()
			}
			b.logf("%s: %v", p.title, err)
			first, _, _ := strings.Cut(err.Error(), "\n")
			doc.text("Not measured: %s", first)
		}
	}
	doc.text("The run took %v.", time.Since(b.began).Round(time.Second))
	// Messages may name folders, which mean nothing elsewhere.
	return strings.NewReplacer(b.work, "…", b.root, ".").Replace(doc.String()), nil
}
