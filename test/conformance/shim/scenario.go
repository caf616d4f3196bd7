package shim

import (
	"encoding/json"
	"errors"
	"fmt"
)

// The environment variables in which the suite gives a scenario.
const (
	NameVariable    = "MCP_CONFORMANCE_SCENARIO"
	contextVariable = "MCP_CONFORMANCE_CONTEXT"
)

// Scenario is the task that the suite gives to one client.
type Scenario struct {
	// Name is the suite's name of the scenario, such as tools_call.
	Name string
	// URL is the server's address.
	URL string
	// Given is the context of the scenario.
	Given Given
}

// Given holds the parts of the suite's context that the shim uses.
type Given struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	PrivateKey   string `json:"private_key_pem"` // instead of a secret
	ToolCalls    []struct {
		Name      string                     `json:"name"`
		Arguments map[string]json.RawMessage `json:"arguments"`
	} `json:"toolCalls"`
}

// Read reads the scenario that the suite gives in the environment and, as the last argument, the server's address.
func Read(args []string, getenv func(string) string) (Scenario, error) {
	s := Scenario{Name: getenv(NameVariable)}
	if len(args) < 2 || s.Name == "" {
		return s, errors.New("the conformance suite gives the scenario in " + NameVariable + " and the server's address as the last argument")
	}
	s.URL = args[len(args)-1]
	if given := getenv(contextVariable); given != "" {
		if err := json.Unmarshal([]byte(given), &s.Given); err != nil {
			return s, fmt.Errorf("reading %s: %w", contextVariable, err)
		}
	}
	return s, nil
}
