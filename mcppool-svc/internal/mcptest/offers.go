package mcptest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// The modes of servers that offer more than tools.
const (
	Offering       = "offering"       // resources, prompts and completions
	OfferingModern = "offeringmodern" // as offering, in the revision without a handshake
	Ancient        = "ancient"        // as offering, in 2024-11-05, and ignores unknown methods
)

const offeringCapabilities = `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"completions":{},"logging":{}}`

func (s *server) offering() bool {
	return s.mode == Offering || s.mode == OfferingModern || s.mode == Ancient
}

// offerMethods are the methods of an offering server.
var offerMethods = map[string]func(*request){
	"ping":           canned(`{}`),
	"resources/list": (*request).resources,
	"resources/templates/list": canned(`{"resourceTemplates":[{"uriTemplate":"demo://{n}","name":"numbered","title":"Numbered",` +
		`"description":"Any number.","mimeType":"text/plain"}]}`),
	"resources/read":        (*request).read,
	"resources/subscribe":   (*request).subscribe,
	"resources/unsubscribe": (*request).unsubscribe,
	"subscriptions/listen":  (*request).listen,
	"prompts/list": canned(`{"prompts":[{"name":"greet","title":"Greet","description":"Greets a person.","arguments":[` +
		`{"name":"who","description":"whom","required":true}]},{"name":"twice","Name":"other"}]}`),
	"prompts/get": (*request).prompt,
	"completion/complete": func(r *request) {
		value := r.Params.Argument.Value
		r.reply(fmt.Sprintf(`{"completion":{"values":[%q,%q],"total":3,"hasMore":true}}`, value+"a", value+"b"))
	},
}

func (r *request) resources() {
	if r.Params.Cursor == "" {
		r.reply(`{"resources":[{"uri":"demo://1","name":"one","title":"One","description":"The first.","mimeType":"text/plain","size":3},` +
			`{"uri":"demo://2","name":"two"}],"nextCursor":"2"}`)
		return
	}
	r.mu.Lock()
	more := ""
	if r.grown {
		more = `,{"uri":"demo://4","name":"four"}`
	}
	r.mu.Unlock()
	r.reply(`{"resources":[{"uri":"demo://3","name":"three"}` + more + `]}`)
}

func (r *request) read() {
	switch r.Params.URI {
	case "demo://1":
		r.reply(`{"contents":[{"uri":"demo://1","mimeType":"text/plain","text":"one"},{"uri":"demo://1/raw","mimeType":"application/octet-stream","blob":"AAEC"}]}`)
	case "demo://never":
		r.notify("notifications/resources/list_changed", `{}`) // tells the test that the request arrived
	case "demo://twice":
		r.reply(`{"contents":[{"uri":"demo://twice","text":"safe","Text":"evil"}]}`)
	case "demo://large":
		r.reply(`{"contents":[{"uri":"demo://large","text":"` + strings.Repeat("x", 1<<20) + `"}]}`)
	default:
		r.fail(-32002, "Resource not found")
	}
}

func (r *request) prompt() {
	_ = json.Unmarshal(r.Params.Arguments, &r.arguments)
	switch {
	case r.Params.Name != "greet":
		r.fail(-32602, "Unknown prompt: "+r.Params.Name)
	case r.arguments.Who == "":
		r.fail(-32602, "Missing required argument who")
	default:
		r.reply(fmt.Sprintf(`{"description":"A greeting.","messages":[{"role":"user","content":{"type":"text","text":%q}},`+
			`{"role":"assistant","content":{"type":"resource","resource":{"uri":"demo://1","text":"one"}}}]}`, "Hello "+r.arguments.Who))
	}
}

func (r *request) subscribe() {
	r.mu.Lock()
	r.subscriptions[r.Params.URI] = append(r.subscriptions[r.Params.URI], r.Params.URI)
	r.mu.Unlock()
	r.reply(`{}`)
}

func (r *request) unsubscribe() {
	r.mu.Lock()
	all := r.subscriptions[r.Params.URI]
	r.subscriptions[r.Params.URI] = all[:max(0, len(all)-1)]
	r.mu.Unlock()
	r.reply(`{}`)
}

// listen holds a stream of notifications open until it is cancelled.
func (r *request) listen() {
	var filter struct{ ResourceSubscriptions []string }
	_ = json.Unmarshal(r.Params.Notifications, &filter)
	r.mu.Lock()
	r.subscriptions[string(r.ID)] = filter.ResourceSubscriptions
	r.mu.Unlock()
	r.notify("notifications/subscriptions/acknowledged",
		fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":%s}`, r.ID, r.Params.Notifications))
}

// subscribed returns the number of subscriptions by address.
func (s *server) subscribed() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := make(map[string]int)
	for _, all := range s.subscriptions {
		for _, uri := range all {
			counts[uri]++
		}
	}
	return counts
}

// offerTools are the tools by which tests control an offering server.
var offerTools = []tool{
	{name: "touch", run: (*request).touch},
	{name: "subscriptions", run: (*request).listSubscriptions},
	{name: "heard", run: func(r *request) {
		r.mu.Lock()
		heard := strings.Join(r.heard, " ")
		r.mu.Unlock()
		r.text(heard)
	}},
	{name: "more", run: func(r *request) {
		r.mu.Lock()
		r.grown = true
		r.mu.Unlock()
		r.notify("notifications/resources/list_changed", `{}`)
		r.text("more")
	}},
	{name: "ask", run: func(r *request) { // sends the client a request
		_, ch := r.send(r.arguments.Method, "{}", "")
		r.text((<-ch).outcome())
	}},
}

// touch announces a change of a resource to its subscribers.
func (r *request) touch() {
	if r.subscribed()[strings.TrimSuffix(r.arguments.URI, "/part")] > 0 {
		r.notify("notifications/resources/updated", fmt.Sprintf(`{"uri":%q}`, r.arguments.URI))
	}
	r.text("touched")
}

// listSubscriptions lists the subscribed addresses with the number of subscriptions.
func (r *request) listSubscriptions() {
	var all []string
	for uri, n := range r.subscribed() {
		all = append(all, fmt.Sprintf("%s=%d", uri, n))
	}
	slices.Sort(all)
	r.text(strings.Join(all, " "))
}
