package mcppool_test

import (
	"context"
	"encoding/json"
	"fmt"

	"pawl.dev/mcppool-svc/mcppool"
)

// A program that embeds the pool offers a function of its own as a tool. The whole suite takes the same Builtins.
func ExampleFunc() {
	add := mcppool.Func{
		Name: "add", Description: "Adds two numbers.", ReadOnly: true,
		Input: json.RawMessage(`{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}`),
		Call: func(_ context.Context, arguments json.RawMessage) (mcppool.Result, error) {
			var in struct{ A, B float64 }
			if err := json.Unmarshal(arguments, &in); err != nil {
				return mcppool.Result{}, err
			}
			return mcppool.Result{Text: fmt.Sprint(in.A + in.B)}, nil
		},
	}
	service, err := mcppool.New(context.Background(), mcppool.Config{}, mcppool.Deps{
		Builtins: map[string]mcppool.Builtin{"numbers": {Tools: []mcppool.Func{add}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("numbers/add is there:", service.Close())
	// Output: numbers/add is there: <nil>
}
