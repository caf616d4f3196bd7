package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/timestamppb"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// growing measures how costs grow with tools, tasks, steps, watchers and outputs.
func (b *bench) growing(ctx context.Context, d *document) {
	d.text("Each row compares one cost at two sizes, in one process and one run; the tools are Go functions of that process. The journal has %d and %d ended tasks.", b.few(), b.scaled(b.tasks))
	var rows [][]string
	for _, part := range []func(context.Context) [][]string{b.growingTools, b.growingJournal, b.growingTask, b.growingWatchers, b.growingOutputs, b.growingCalls} {
		b.scope(func() {
			b.awaitQuiet(ctx)
			for _, row := range part(ctx) {
				b.logf("%s", strings.Join(row, ", "))
				rows = append(rows, row)
			}
		})
	}
	d.table([]string{"", "small", "large", "large / small", "target"}, rows)
}

// compared is a row of the table.
func compared(what string, small, large float64, target string) []string {
	return []string{what, figure(small), figure(large), ratio(large, small), target}
}

// few is the number of ended tasks in the small journal.
func (b *bench) few() int { return b.scaled(b.tasks) / 100 }

// growingTools measures tasks of one step that see many tools: with a playbook, and with the planner that chooses a tool without a model.
func (b *bench) growingTools(ctx context.Context) (rows [][]string) {
	const level = 32
	var playbooks, chosen []*contender
	counts := []int{10, 1000, 5000}
	for _, n := range counts {
		l := inProcess
		l.args = []string{"--tools", fmt.Sprint(n)}
		p := b.startPawl(ctx, l)
		playbook, yes := p.contender(1, equalSteps(1, l.tool, "text: hello")), true
		choice := p.contender(1, &executorv1.CreateTaskRequest{AutoExecute: &yes, McpIds: []string{"inprocess"}, Goal: `Echo the text "hello"`})
		playbook.name, choice.name = fmt.Sprintf("%d tools, playbook", n), fmt.Sprintf("%d tools, chosen", n)
		playbooks, chosen = append(playbooks, playbook), append(chosen, choice)
	}
	b.inTurns(ctx, append(append([]*contender(nil), playbooks...), chosen...), []int{level})
	row := func(what string, of []*contender, large int, target string) []string {
		return compared(fmt.Sprintf("%s, tasks/s at %d; %d and %d tools visible", what, level, counts[0], counts[large]), of[0].of(level, perSecond), of[large].of(level, perSecond), target)
	}
	memory := func(c *contender) float64 { return c.sumOf(level, memoryFor) }
	return [][]string{
		row("playbook of one step", playbooks, 2, "≥ 0.8 ×"), row("a tool is chosen", chosen, 1, "≥ 0.5 ×"), row("a tool is chosen", chosen, 2, "≥ 0.2 ×"),
		compared("memory of the process meanwhile, MB; 10 and 5000 tools", memory(chosen[0]), memory(chosen[2]), "≤ 160"),
	}
}

// growingJournal measures reads of a journal with few and with many ended tasks.
func (b *bench) growingJournal(ctx context.Context) (rows [][]string) {
	var small, large *pawl
	for _, of := range []struct {
		tasks int
		to    **pawl
	}{{b.few(), &small}, {b.scaled(b.tasks), &large}} {
		l := inProcess
		l.data = b.fullJournal(ctx, of.tasks)
		p := b.startPawl(ctx, l)
		task := equalSteps(1, l.tool, "text: hello")
		task.ConversationId = "c"
		times(ctx, 100, 10, func(ctx context.Context) error { return p.run(ctx, 1, task, nil) })
		*of.to = p
	}
	list := func(req *executorv1.ListTasksRequest) func(context.Context, *pawl) error {
		return func(ctx context.Context, p *pawl) error {
			_, err := p.tasks.ListTasks(ctx, req)
			return err
		}
	}
	stored := must(large.tasks.GetStoreInfo(ctx, &executorv1.GetStoreInfoRequest{}))
	oldest := stored.GetOldest().AsTime()
	middle := timestamppb.New(oldest.Add(stored.GetNewest().AsTime().Sub(oldest) / 2))
	for _, of := range []struct {
		what, target string
		call         func(context.Context, *pawl) error
	}{
		{"a page of tasks", "", list(&executorv1.ListTasksRequest{})},
		{"by status", "≤ 2 ms", list(&executorv1.ListTasksRequest{Statuses: []executorv1.ExecutorStatus{executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS}})},
		{"by status, none has it", "≤ 2 ms", list(&executorv1.ListTasksRequest{Statuses: []executorv1.ExecutorStatus{executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING}})},
		{"by conversation", "≤ 2 ms", list(&executorv1.ListTasksRequest{ConversationId: "c"})},
		{"created before", "≤ 2 ms", list(&executorv1.ListTasksRequest{CreatedBefore: middle})},
		{"created after", "≤ 2 ms", list(&executorv1.ListTasksRequest{CreatedAfter: middle})},
		{"GetStoreInfo", "≤ 5 ms", func(ctx context.Context, p *pawl) error {
			_, err := p.tasks.GetStoreInfo(ctx, &executorv1.GetStoreInfoRequest{})
			return err
		}},
	} {
		rows = append(rows, compared(fmt.Sprintf("%s, p50, ms; %d and %d tasks", of.what, b.few(), b.scaled(b.tasks)), small.timeOf(ctx, of.call), large.timeOf(ctx, of.call), of.target))
	}
	return rows
}

// timeOf returns the p50 of a call, in ms.
func (p *pawl) timeOf(ctx context.Context, call func(context.Context, *pawl) error) float64 {
	var took []time.Duration
	for range 50 {
		began := time.Now()
		check(call(ctx, p))
		took = append(took, time.Since(began))
	}
	p50, _ := quantiles(took)
	return p50
}

// growingTask measures tasks of many steps: pages of them, and inputs that refer to the output before.
func (b *bench) growingTask(ctx context.Context) (rows [][]string) {
	const small, large, onePage = 100, 1000, 100
	p := b.startPawl(ctx, inProcess)
	page := func(n, skip int) float64 {
		var first *executorv1.ExecutorEvent
		check(p.run(ctx, n, equalSteps(n, p.tool, "text: hello"), func(e *executorv1.ExecutorEvent) { first = e }))
		req := &executorv1.ListStepsRequest{Id: first.GetTaskId(), PageSize: onePage}
		for skip -= onePage; skip >= 0; skip -= onePage {
			req.PageToken = must(p.tasks.ListSteps(ctx, req)).GetNextPageToken()
		}
		return p.timeOf(ctx, func(ctx context.Context, p *pawl) error {
			_, err := p.tasks.ListSteps(ctx, req)
			return err
		})
	}
	alone := page(small, 0)
	rows = append(rows,
		compared("a page of 100 steps, p50, ms; the first of 100 and of 1000", alone, page(large, 0), "≤ 0.6 ms"),
		compared("the first of 100 and the last of 1000", alone, page(large, large-onePage), "≤ 0.6 ms"))
	chained := fmt.Sprintf("steps:\n  - {id: s0, tool: %s, input: {text: x}}\n", p.tool)
	for i := range large - 1 {
		chained += fmt.Sprintf("  - {id: s%d, tool: %s, input: {text: \"${s%d.message}\"}}\n", i+1, p.tool, i)
	}
	var took [2][]float64
	for range b.rounds {
		for i, req := range []*executorv1.CreateTaskRequest{equalSteps(large, p.tool, "text: hello"), request(chained)} {
			began := time.Now()
			check(p.run(ctx, large, req, nil))
			took[i] = append(took[i], large/time.Since(began).Seconds())
		}
	}
	return append(rows, compared("steps/s of a task of 1000 steps; fixed inputs, and each made of the output before", median(took[0]), median(took[1]), "≥ 0.95 ×"))
}

// growingWatchers measures the watchers of one task over server-sent events.
func (b *bench) growingWatchers(ctx context.Context) (rows [][]string) {
	few, many := 10, b.scaled(1000)
	web := freeAddrs(ctx, 1)[0]
	l := oneProcess
	l.args = []string{"--http", web, "--user-connections", "8192", "--anonymous-connections", "8192"}
	p := b.startPawl(ctx, l)
	p.executor.await(ctx, func(ctx context.Context) bool { return isReady(ctx, "http://"+web) })
	req := equalSteps(20, "t/lookup", fmt.Sprintf("path: %q, line: x", filepath.Join(b.work, "watched.txt")))
	var late, each [2]float64
	for i, n := range []int{few, many} {
		late[i], each[i] = b.watchers(ctx, p, "http://"+web, req, n)
	}
	what := fmt.Sprintf("; %d and %d watchers", few, many)
	return [][]string{
		compared("from an event to the watcher's receipt, p99, ms"+what, late[0], late[1], "≤ 25 ms"),
		compared("memory per watcher, KB"+what, 0, each[1], "≤ 32 KB"),
	}
}

// watchers runs a task with n watchers, and returns the p99 of the time from an event to its receipt, in ms, and the memory per watcher, in KB.
func (b *bench) watchers(ctx context.Context, p *pawl, base string, req *executorv1.CreateTaskRequest, n int) (late, each float64) {
	before := anonymousMB(p.executor.pid)
	yes := true
	req.AutoExecute = &yes
	task := must(p.tasks.CreateTask(ctx, req))
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}}
	b.atEnd(func() error { client.CloseIdleConnections(); return nil })
	var mu sync.Mutex // guards took
	var took []time.Duration
	work, ctx := errgroup.WithContext(ctx)
	for range n {
		work.Go(func() error {
			mine, err := watchEvents(ctx, client, base+"/v1/tasks/"+task.GetId()+"/events")
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
			return err
		})
	}
	highest := before
	work.Go(func() error {
		for range 15 {
			wait(ctx, 100*time.Millisecond)
			highest = max(highest, anonymousMB(p.executor.pid))
		}
		return nil
	})
	check(work.Wait())
	_, p99 := quantiles(took)
	return p99, (highest - before) * 1024 / float64(n)
}

// watchEvents reads the events of a task to its end, and returns how late those of the second half were; before that, watchers connect.
func watchEvents(ctx context.Context, client *http.Client, url string) (late []time.Duration, err error) {
	req := must(http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody))
	req.Header.Set("Accept", "text/event-stream")
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		now := time.Now()
		if _, rest, ok := strings.Cut(lines.Text(), `"time":"`); ok { // decoding the whole event would take longer than writing it
			value, _, _ := strings.Cut(rest, `"`)
			at, err := time.Parse(time.RFC3339Nano, value)
			if err != nil {
				return nil, err
			}
			late = append(late, now.Sub(at))
		}
	}
	if len(late) == 0 {
		return nil, fmt.Errorf("%s: no event", url)
	}
	return late[len(late)/2:], lines.Err()
}

// growingOutputs measures what large outputs take in memory and in the journal.
func (b *bench) growingOutputs(ctx context.Context) (rows [][]string) {
	p := b.startPawl(ctx, inProcess)
	seed := 0
	run := func(size, steps int) {
		var playbook strings.Builder
		playbook.WriteString("steps:\n")
		for range steps {
			seed++
			fmt.Fprintf(&playbook, "  - {tool: inprocess/blob, input: {bytes: %d, seed: %d}}\n", size, seed)
		}
		check(p.run(ctx, steps, request(playbook.String()), nil))
	}
	memory := func(size, steps int) float64 {
		run(size, steps)
		before, highest := settled(ctx, p.executor.pid), 0.0
		done := make(chan struct{})
		work := errgroup.Group{}
		work.Go(func() error {
			for {
				select {
				case <-done:
					return nil
				case <-time.After(time.Millisecond):
					highest = max(highest, anonymousMB(p.executor.pid))
				}
			}
		})
		for range 5 {
			run(size, steps)
		}
		close(done)
		_ = work.Wait() // it returns no error
		return max(0, highest-before)
	}
	journal := func(size, tasks int) float64 {
		before := readMeta(p.journal).used
		for range tasks {
			run(size, 10)
		}
		wait(ctx, time.Second) // until the log is applied
		return float64(readMeta(p.journal).used-before) / float64(tasks*10*size)
	}
	return [][]string{
		compared("bytes of the journal per byte of output; 1 KB and 100 KB", journal(1000, 200), journal(100_000, 20), "≤ 1.6"),
		compared("memory that a task adds, at most, MB; outputs of 1 KB and 8 MB", memory(1000, 10), memory(8_000_000, 1), "≤ 32 MB"),
	}
}

// growingCalls measures the memory of tasks in a long call.
func (b *bench) growingCalls(ctx context.Context) [][]string {
	n := b.scaled(1000)
	l := inProcess
	l.args = []string{"--max-running", fmt.Sprint(2 * n)}
	p := b.startPawl(ctx, l)
	measure := func(n int) float64 {
		before := settled(ctx, p.executor.pid)
		for range n {
			must(p.tasks.CreateTask(ctx, equalSteps(1, "inprocess/sleep", "seconds: 30")))
		}
		return (settled(ctx, p.executor.pid) - before) * 1024 / float64(n)
	}
	measure(n / 10) // what the first tasks need is not a cost of waiting
	return [][]string{compared(fmt.Sprintf("memory per task in a long call, KB; %d tasks", n), 0, measure(n), "≤ 20 KB")}
}
