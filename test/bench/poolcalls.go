package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	mcpclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"google.golang.org/grpc"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/identity"
)

// callOnce makes one call of echo.
type callOnce func(context.Context) error

// way is one of making a call.
type way struct {
	name string
	once callOnce
}

// poolCalls compares a call through the pool, over gRPC on loopback with a key, with one that mcp-go makes by itself, and with one
// that goes through gRPC and no more.
func (b *bench) poolCalls(ctx context.Context, d *document) (err error) {
	tool, err := stdioTool()
	if err != nil {
		return err
	}
	a, err := b.startPool(ctx, nil, map[string]any{"t": tool})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.stop()) }()
	client, err := directClient(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the streams
	ways := []way{
		{"mcp-go alone", directCall(client)},
		{"one gRPC call each, through the pool", a.singly()}, {"over a stream, through the pool", a.streamed(ctx)},
	}
	p50s, rates := make([][]float64, len(ways)), make([][]float64, len(ways))
	for round := range b.rounds {
		p50, err := latencies(ctx, b.few(5000), ways)
		if err != nil {
			return err
		}
		for i, w := range ways {
			each, err := rate(ctx, b.each, w.once)
			if err != nil {
				return err
			}
			p50s[i], rates[i] = append(p50s[i], p50[i]), append(rates[i], each)
			b.logf("pool: %s: p50 %.3f ms added, %.2f of the throughput", w.name, p50[i]-p50[0], each/rates[0][round])
		}
	}
	showCalls(d, b.rounds, ways, p50s, rates)
	return nil
}

// showCalls shows all ways beside the first.
func showCalls(d *document, rounds int, ways []way, p50s, rates [][]float64) {
	d.text("A call of a tool over stdio through the pool (gRPC on loopback, a key, a name, the acknowledgement of the call before), by itself or over a stream of calls, as an "+
		"executor's tasks make them; beside the same that mcp-go makes by itself. Medians of %d round(s), in turns. Targets: at most 0.15 ms added, at least 0.45 of the throughput.", rounds)
	var rows [][]string
	for i, w := range ways {
		row := []string{w.name, figure(median(p50s[i])), none, figure(median(rates[i])), none}
		if i > 0 {
			var added, share []float64
			for round := range rounds {
				added, share = append(added, p50s[i][round]-p50s[0][round]), append(share, rates[i][round]/rates[0][round])
			}
			row[2], row[4] = figure(median(added)), fmt.Sprintf("%.2f ×", median(share))
		}
		rows = append(rows, row)
	}
	d.table([]string{"", "p50 of one caller, ms", "added", fmt.Sprintf("calls/s of %d callers", poolCallers), "of mcp-go alone"}, rows)
}

// echoCall is how an executor makes a call.
func echoCall(id uint64) *mcppoolv1.CallToolRequest {
	return &mcppoolv1.CallToolRequest{
		McpId: "t", Name: "echo", InputJson: `{"text":"hello"}`, SessionId: "task", Epoch: 1, IdempotencyKey: "key",
		CallId: "task/" + strconv.FormatUint(id, 10), AckCallIds: []string{"task/" + strconv.FormatUint(id-1, 10)},
	}
}

// singly makes a gRPC call for each.
func (a *alone) singly() callOnce {
	var n atomic.Uint64
	return func(ctx context.Context) error {
		return call(identity.OnBehalfOf(ctx, "ann"), a.pool, echoCall(n.Add(1)))
	}
}

// streamed makes calls over streams, as many as there are callers at once. They end with life.
func (a *alone) streamed(life context.Context) callOnce {
	var n atomic.Uint64
	free := make(chan grpc.BidiStreamingClient[mcppoolv1.CallToolsRequest, mcppoolv1.CallToolsResponse], poolCallers)
	return func(context.Context) (err error) {
		var stream grpc.BidiStreamingClient[mcppoolv1.CallToolsRequest, mcppoolv1.CallToolsResponse]
		select {
		case stream = <-free:
		default:
			if stream, err = a.pool.CallTools(identity.OnBehalfOf(life, "ann")); err != nil {
				return err
			}
		}
		if err := stream.Send(&mcppoolv1.CallToolsRequest{Call: echoCall(1<<32 + n.Add(1))}); err != nil {
			return err
		}
		for {
			m, err := stream.Recv()
			switch {
			case err != nil:
				return err
			case m.GetError() != nil:
				return errors.New(m.GetError().GetMessage())
			case m.GetCall().GetResult() != nil:
				free <- stream
				return nil
			}
		}
	}
}

func directCall(c *mcpclient.Client) callOnce {
	return func(ctx context.Context) error {
		_, err := c.CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "hello"}}})
		return err
	}
}

func call(ctx context.Context, pool mcppoolv1.McpPoolServiceClient, req *mcppoolv1.CallToolRequest) error {
	stream, err := pool.CallTool(ctx, req)
	if err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		if m.GetResult() != nil {
			_, _ = stream.Recv() // its end
			return nil
		}
	}
}

// latencies are the medians of calls that one caller makes in turns, in ms.
func latencies(ctx context.Context, n int, ways []way) ([]float64, error) {
	times := make([][]time.Duration, len(ways))
	for i := range n {
		for j, w := range ways {
			began := time.Now()
			if err := w.once(ctx); err != nil {
				return nil, err
			}
			if i >= n/10 { // what comes before warms up
				times[j] = append(times[j], time.Since(began))
			}
		}
	}
	p50 := make([]float64, len(ways))
	for j := range ways {
		p50[j], _ = quantiles(times[j])
	}
	return p50, nil
}

// rate is how many calls many callers make in a second.
func rate(ctx context.Context, each time.Duration, once callOnce) (float64, error) {
	until, cancel := context.WithTimeout(ctx, each)
	defer cancel()
	var calls atomic.Int64
	var failed error
	var fail sync.Once
	var work sync.WaitGroup
	began := time.Now()
	for range poolCallers {
		work.Go(func() {
			for until.Err() == nil {
				if err := once(ctx); err != nil {
					fail.Do(func() { failed = err })
					return
				}
				calls.Add(1)
			}
		})
	}
	work.Wait()
	return float64(calls.Load()) / time.Since(began).Seconds(), failed
}

// directClient is mcp-go with the tool, over stdio.
func directClient(ctx context.Context) (*mcpclient.Client, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	client, err := mcpclient.NewStdioMCPClient(self, append(os.Environ(), toolVariable+"=1"))
	if err != nil {
		return nil, err
	}
	if _, err := client.Initialize(ctx, mcp.InitializeRequest{}); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return client, nil
}
