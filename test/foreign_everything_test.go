package test

// everythingUses use server-everything of npm, which speaks 2025-11-25. It offers its tools that ask a model only to clients with the sampling capability.
func everythingUses(root string) []use {
	return []use{
		{tool: "echo", input: `{"message":"hello"}`, wants: []string{"text Echo: hello"}},
		{tool: "get-sum", input: `{"a":2,"b":3}`, wants: []string{"5"}},
		{tool: "get-env", wants: []string{"PATH"}},
		{tool: "get-tiny-image", wants: []string{"image image/png"}},
		{tool: "get-annotated-message", input: `{"messageType":"error","includeImage":true}`, wants: []string{"text Error", "image image/png"}},
		{tool: "get-resource-links", input: `{"count":2}`, wants: []string{"link demo://resource/dynamic/"}},
		{tool: "get-resource-reference", input: `{"resourceType":"Blob","resourceId":2}`, wants: []string{"resource demo://resource/dynamic/blob/2"}},
		{tool: "get-structured-content", input: `{"location":"Chicago"}`, wants: []string{"structured", `"temperature":`}},
		{tool: "gzip-file-as-resource", input: `{"name":"a.gz","data":"data:text/plain,pawl","outputType":"resource"}`, wants: []string{"resource demo://resource/session/a.gz application/gzip"}},
		{tool: "gzip-file-as-resource", input: `{"name":"b.gz","data":"data:text/plain,pawl","outputType":"resourceLink"}`, wants: []string{"link demo://resource/session/b.gz"}},
		{tool: "toggle-simulated-logging", wants: []string{"Started"}},
		{tool: "toggle-simulated-logging", wants: []string{"Stopped"}},
		{tool: "toggle-subscriber-updates", wants: []string{"Started"}},
		{tool: "toggle-subscriber-updates", wants: []string{"Stopped"}},
		{tool: "trigger-long-running-operation", input: `{"duration":0.4,"steps":4}`, wants: []string{"completed"}, progress: true},
		{tool: "get-roots-list", wants: []string{"file://" + root}},
		{tool: "trigger-elicitation-request", answers: []string{`{"name":"Ann"}`}, asks: []string{"Please provide inputs"},
			wants: []string{"User provided", "Name: Ann", "Favorite Integer: 42"}},
		{tool: "trigger-elicitation-request", answers: []string{decline}, asks: []string{"Please provide inputs"}, wants: []string{"User declined"}},
		{tool: "trigger-url-elicitation", input: `{"url":"https://login.example/a","message":"Open it"}`, answers: []string{""},
			asks: []string{"Open it https://login.example/a"}, wants: []string{"accept"}},
		// Here an error names the address to open first; then it asks as above.
		{tool: "trigger-url-elicitation", input: `{"url":"https://login.example/b","errorPath":true}`, answers: []string{"", ""},
			asks: []string{"https://modelcontextprotocol.io", "https://login.example/b"}, wants: []string{"accept"}},
		{tool: "simulate-research-query", input: `{"topic":"python","ambiguous":true}`, answers: []string{`{"interpretation":"snake"}`},
			asks: []string{"could have multiple interpretations"}, wants: []string{"Research Report: python (snake)"}, task: true},
	}
}
