package mcptest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// The modes of servers that offer more than tools.
const (
	Offering       = "offering"       // resources, prompts and completions
	OfferingModern = "offeringmodern" // as offering, in the revision without a handshake
	Ancient        = "ancient"        // speaks 2024-11-05, and ignores unknown methods
)

const offeringCapabilities = `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"completions":{},"logging":{}}`

// offers is the state of a server's resources and subscriptions.
type offers struct {
	mu         sync.Mutex
	heard      []string                         // guarded by mu; the methods of the messages so far
	subscribed map[string]int                   // guarded by mu; by address
	grown      bool                             // guarded by mu; there is one more resource
	asked      map[string]chan json.RawMessage  // guarded by mu; receive the answers to the server's requests, by id
	listening  map[string]func(uri string) bool // guarded by mu; open subscriptions/listen, by id
}

func (s *server) offering() bool {
	return s.mode == Offering || s.mode == OfferingModern || s.mode == Ancient
}

// hear records a message. If the message is a response, hear handles it and returns true.
func (s *server) hear(m message) (taken bool) {
	s.offers.mu.Lock()
	defer s.offers.mu.Unlock()
	if m.Method != "" {
		s.offers.heard = append(s.offers.heard, m.Method)
		return false
	}
	answer := m.Result
	if len(answer) == 0 {
		answer = m.Error
	}
	if ch := s.offers.asked[string(m.ID)]; ch != nil {
		delete(s.offers.asked, string(m.ID))
		ch <- answer
		return true
	}
	s.answered(m)
	return true
}

// offer answers requests for resources, prompts and completions; it returns false for others.
func (s *server) offer(m message) bool {
	if !s.offering() {
		return false
	}
	var p struct {
		URI, Name, Cursor string
		Arguments         map[string]string
		Argument          struct{ Value string }
		Notifications     json.RawMessage
	}
	_ = json.Unmarshal(m.Params, &p)
	switch m.Method {
	case "ping":
		s.reply(m, `{}`)
	case "resources/list":
		s.reply(m, s.resources(p.Cursor))
	case "resources/templates/list":
		s.reply(m, `{"resourceTemplates":[{"uriTemplate":"demo://{n}","name":"numbered","title":"Numbered","description":"Any number.","mimeType":"text/plain"}]}`)
	case "resources/read":
		s.read(m, p.URI)
	case "resources/subscribe":
		s.addSubscription(p.URI, 1)
		s.reply(m, `{}`)
	case "resources/unsubscribe":
		s.addSubscription(p.URI, -1)
		s.reply(m, `{}`)
	case "subscriptions/listen":
		s.listen(m, p.Notifications)
	case "prompts/list":
		s.reply(m, `{"prompts":[{"name":"greet","title":"Greet","description":"Greets somebody.","arguments":[{"name":"who","description":"whom","required":true}]},`+
			`{"name":"twice","Name":"other"}]}`)
	case "prompts/get":
		s.prompt(m, p.Name, p.Arguments)
	case "completion/complete":
		s.reply(m, fmt.Sprintf(`{"completion":{"values":[%q,%q],"total":3,"hasMore":true}}`, p.Argument.Value+"a", p.Argument.Value+"b"))
	default:
		return s.mode == Ancient // ignored
	}
	return true
}

func (s *server) resources(cursor string) string {
	if cursor == "" {
		return `{"resources":[{"uri":"demo://1","name":"one","title":"One","description":"The first.","mimeType":"text/plain","size":3},{"uri":"demo://2","name":"two"}],"nextCursor":"2"}`
	}
	s.offers.mu.Lock()
	defer s.offers.mu.Unlock()
	more := `{"uri":"demo://3","name":"three"}`
	if s.offers.grown {
		more += `,{"uri":"demo://4","name":"four"}`
	}
	return `{"resources":[` + more + `]}`
}

func (s *server) read(m message, uri string) {
	switch uri {
	case "demo://1":
		s.reply(m, `{"contents":[{"uri":"demo://1","mimeType":"text/plain","text":"one"},{"uri":"demo://1/raw","mimeType":"application/octet-stream","blob":"AAEC"}]}`)
	case "demo://never":
		s.notify("notifications/resources/list_changed", `{}`) // it came
	case "demo://twice":
		s.reply(m, `{"contents":[{"uri":"demo://twice","text":"safe","Text":"evil"}]}`)
	case "demo://large":
		s.reply(m, `{"contents":[{"uri":"demo://large","text":"`+strings.Repeat("x", 1<<20)+`"}]}`)
	default:
		s.fail(m, -32002, "Resource not found")
	}
}

func (s *server) prompt(m message, name string, arguments map[string]string) {
	switch {
	case name != "greet":
		s.fail(m, -32602, "Unknown prompt: "+name)
	case arguments["who"] == "":
		s.fail(m, -32602, "Missing required argument who")
	default:
		s.reply(m, fmt.Sprintf(`{"description":"A greeting.","messages":[{"role":"user","content":{"type":"text","text":%q}},`+
			`{"role":"assistant","content":{"type":"resource","resource":{"uri":"demo://1","text":"one"}}}]}`, "Hello "+arguments["who"]))
	}
}

// addSubscription counts subscriptions of an address.
func (s *server) addSubscription(uri string, n int) {
	s.offers.mu.Lock()
	defer s.offers.mu.Unlock()
	if s.offers.subscribed == nil {
		s.offers.subscribed = make(map[string]int)
	}
	s.offers.subscribed[uri] += n
}

// listen holds a stream of notifications open until it is cancelled.
func (s *server) listen(m message, wanted json.RawMessage) {
	var filter struct{ ResourceSubscriptions []string }
	_ = json.Unmarshal(wanted, &filter)
	s.offers.mu.Lock()
	if s.offers.listening == nil {
		s.offers.listening = make(map[string]func(string) bool)
	}
	s.offers.listening[string(m.ID)] = func(uri string) bool {
		return slices.Contains(filter.ResourceSubscriptions, strings.TrimSuffix(uri, "/part"))
	}
	s.offers.mu.Unlock()
	s.notify("notifications/subscriptions/acknowledged", fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":%s}`, m.ID, wanted))
}

func (s *server) unlisten(id json.RawMessage) {
	s.offers.mu.Lock()
	defer s.offers.mu.Unlock()
	delete(s.offers.listening, string(id))
}

// touch announces a change of a resource to its subscribers.
func (s *server) touch(uri string) {
	s.offers.mu.Lock()
	wanted := s.offers.subscribed[strings.TrimSuffix(uri, "/part")] > 0
	for _, wants := range s.offers.listening {
		wanted = wanted || wants(uri)
	}
	s.offers.mu.Unlock()
	if wanted {
		s.notify("notifications/resources/updated", fmt.Sprintf(`{"uri":%q}`, uri))
	}
}

// offerTool runs the tools by which tests control an offering server; it returns false for others.
func (s *server) offerTool(r request) bool {
	if !s.offering() {
		return false
	}
	var args struct{ URI, Method string }
	_ = json.Unmarshal(r.arguments, &args)
	switch r.name {
	case "touch":
		s.touch(args.URI)
		s.text(r.message, "touched")
	case "subscriptions":
		s.text(r.message, s.subscriptions())
	case "heard":
		s.offers.mu.Lock()
		heard := strings.Join(s.offers.heard, " ")
		s.offers.mu.Unlock()
		s.text(r.message, heard)
	case "more":
		s.offers.mu.Lock()
		s.offers.grown = true
		s.offers.mu.Unlock()
		s.notify("notifications/resources/list_changed", `{}`)
		s.text(r.message, "more")
	case "ask":
		s.text(r.message, string(s.askBack(args.Method)))
	default:
		return false
	}
	return true
}

// subscriptions lists the subscribed addresses with the number of subscriptions.
func (s *server) subscriptions() string {
	s.offers.mu.Lock()
	defer s.offers.mu.Unlock()
	var all []string
	for uri, n := range s.offers.subscribed {
		if n != 0 {
			all = append(all, fmt.Sprintf("%s=%d", uri, n))
		}
	}
	for _, wants := range s.offers.listening {
		for _, uri := range []string{"demo://1", "demo://2"} {
			if wants(uri) {
				all = append(all, uri+"=1")
			}
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// askBack sends the client a request and waits for its answer.
func (s *server) askBack(method string) json.RawMessage {
	ch := make(chan json.RawMessage, 1)
	s.offers.mu.Lock()
	if s.offers.asked == nil {
		s.offers.asked = make(map[string]chan json.RawMessage)
	}
	id := fmt.Sprintf(`"ask-%d"`, len(s.offers.asked)+1)
	s.offers.asked[id] = ch
	s.offers.mu.Unlock()
	s.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{}}`, id, method))
	return <-ch
}

var offerDefinitions = []string{"touch", "subscriptions", "heard", "more", "ask"}
