package models

import (
	"fmt"
	"net/http"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"pawl.dev/planner-svc/internal/llm"
)

// TestMetrics records tokens, duration and cost of an answer and of an error.
func TestMetrics(t *testing.T) {
	before, reader := otel.GetMeterProvider(), metric.NewManualReader()
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
	t.Cleanup(func() { otel.SetMeterProvider(before) })
	for _, code := range []int{200, 401} {
		b := bookOf(t, func(*http.Request) *http.Response {
			if code == 200 {
				return good()
			}
			return fails(code)
		}, "a, price: {input: 2, output: 0}")
		_, _ = b.List()[0].Generate(t.Context(), &llm.Request{}, nil)
	}
	var data metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, m := range data.ScopeMetrics[0].Metrics {
		switch d := m.Data.(type) {
		case metricdata.Histogram[int64]:
			kind, _ := d.DataPoints[0].Attributes.Value(attribute.Key("gen_ai.token.type"))
			got[m.Name] = fmt.Sprint(len(d.DataPoints), kind.AsString(), d.DataPoints[0].Sum)
		case metricdata.Histogram[float64]:
			for _, p := range d.DataPoints {
				class, _ := p.Attributes.Value(attribute.Key("error.type"))
				got[m.Name+class.AsString()] = fmt.Sprint(p.Count)
			}
		case metricdata.Sum[float64]:
			got[m.Name] = fmt.Sprintf("%.6f", d.DataPoints[0].Value)
		}
	}
	for name, want := range map[string]string{
		"gen_ai.client.token.usage": "1input10", "gen_ai.client.operation.duration": "1", "gen_ai.client.operation.durationAUTH": "1", "pawl.planner.cost": "0.000020",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}
