package mcppool

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcptest"
)

// collect returns gauges (fractions in thousandths), counters, and the counts of histograms, by name and attributes.
func collect(t *testing.T, r metric.Reader) map[string]int {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := r.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int)
	key := func(name string, of attribute.Set) string { return name + " " + of.Encoded(attribute.DefaultEncoder()) }
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					got[key(m.Name, p.Attributes)] = int(p.Value)
				}
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					got[key(m.Name, p.Attributes)] = int(p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					got[key(m.Name, p.Attributes)] = int(p.Value*1000 + 0.5)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					got[key(m.Name, p.Attributes)] = int(p.Count)
					if p.Sum <= 0 && p.Attributes.Len() == 1 {
						t.Errorf("%s took no time", m.Name)
					}
				}
			}
		}
	}
	return got
}

func TestMetrics(t *testing.T) {
	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	s := startWith(t, Config{
		MCPConfigs:     []string{fakeConfig(t, map[string]string{"fake": mcptest.Good, "other": mcptest.Good})},
		MaxConnections: 4, MaxConnectionsPerUser: 1, MaxCalls: 8, MaxCallsPerUser: 1,
	}, Deps{Meter: provider.Meter("test")})
	ann := s.as("ann")
	for _, tool := range []string{"info", "info", "fail", "error", "nope"} {
		invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: "fake", Name: tool})
	}
	ended := running(t.Context(), t, s.as("bob"), "wait", "c1")
	if o := invoke(t, s.as("bob"), &mcppoolv1.CallToolRequest{McpId: "other", Name: "info"}); o.reason() != "LIMIT_REACHED" {
		t.Errorf("a second call: %v", o.err)
	}
	if _, err := s.as("bob").ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: "other"}); err == nil {
		t.Error("a second connection was made")
	}
	got := collect(t, reader)
	for name, want := range map[string]int{
		"pawl.mcppool.call.duration pawl.outcome=KNOWN":                                  2,
		"pawl.mcppool.call.duration error.type=tool_error,pawl.outcome=KNOWN":            1,
		"pawl.mcppool.call.duration error.type=TOOL_EXECUTION_FAILED,pawl.outcome=KNOWN": 1,
		"pawl.mcppool.call.duration error.type=TOOL_NOT_FOUND,pawl.outcome=NOT_EXECUTED": 1,
		"pawl.mcppool.call.duration error.type=LIMIT_REACHED,pawl.outcome=NOT_EXECUTED":  1,
		"pawl.mcppool.calls.running ":                                                    1,
		"pawl.mcppool.calls.waiting ":                                                    0,
		"pawl.mcppool.limit pawl.resource=calls":                                         8,
		"pawl.mcppool.limit pawl.resource=connections":                                   4,
		"pawl.mcppool.saturation pawl.resource=calls":                                    125,
		"pawl.mcppool.saturation pawl.resource=connections":                              500,
		"pawl.mcppool.refused pawl.resource=calls":                                       1,
		"pawl.mcppool.refused pawl.resource=connections":                                 1,
		"pawl.mcppool.results.kept ":                                                     0,
		"pawl.mcppool.cache.lookups pawl.cache.result=hit":                               0,
		"pawl.mcppool.connections pawl.connection.state=busy":                            1,
		"pawl.mcppool.connections pawl.connection.state=idle":                            1,
		"pawl.mcppool.connections pawl.connection.state=connecting":                      0,
		"pawl.mcppool.connections pawl.connection.state=closing":                         0,
	} {
		if n, there := got[name]; !there || n != want {
			t.Errorf("%s = %d, want %d", name, n, want)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
	if err := cancelCall(t, s.as("bob"), "c1"); err != nil {
		t.Error(err)
	}
	<-ended
	if n := collect(t, reader)["pawl.mcppool.calls.running "]; n != 0 {
		t.Errorf("%d calls run", n)
	}
}
