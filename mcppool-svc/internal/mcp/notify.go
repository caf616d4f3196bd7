package mcp

import (
	"encoding/json"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
)

// maxNote bounds what one progress or log message may carry; the rest is cut off.
const maxNote = 64 << 10

// notified handles a notification. It runs in the goroutine that reads the connection and must not block.
func (c *client) notified(n mcp.JSONRPCNotification) {
	fields := n.Params.AdditionalFields
	switch n.Method {
	case string(mcp.MethodNotificationToolsListChanged):
		c.tools.Add(1)
		c.offers.tell()
	case "notifications/progress":
		c.mu.Lock()
		r := c.calls[fmt.Sprint(fields["progressToken"])]
		c.mu.Unlock()
		if r != nil {
			done, _ := fields["progress"].(float64)
			total, _ := fields["total"].(float64)
			message, _ := fields["message"].(string)
			r.notify(Notification{Progress: &Progress{Done: done, Total: total, Message: cut(message)}})
		}
	case "notifications/message":
		c.broadcast(Notification{Log: logOf(fields)})
	case string(mcp.MethodNotificationCancelled):
		c.shut(questionKey{request: mcp.NewRequestId(fields["requestId"]).String()}, errWithdrawn)
	case string(mcp.MethodNotificationElicitationComplete):
		if id, ok := fields["elicitationId"].(string); ok {
			c.shut(questionKey{elicitation: id}, errDone)
		}
	case mcp.MethodNotificationTasksStatus:
		if id, ok := fields["taskId"].(string); ok {
			c.wake(id)
		}
	case mcp.MethodNotificationResourcesListChanged:
		c.offers.outdate(Resources, ResourceTemplates)
		c.offers.tell()
	case mcp.MethodNotificationPromptsListChanged:
		c.offers.outdate(Prompts)
		c.offers.tell()
	case mcp.MethodNotificationResourceUpdated:
		if uri, ok := fields["uri"].(string); ok {
			c.offers.updated(cut(uri))
		}
	case mcp.MethodNotificationSubscriptionsAcknowledged:
		c.offers.acknowledged(n.Params)
	}
}

// wake tells the call that a task does that the task changed.
func (c *client) wake(task string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.ofTask(task); r != nil {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

// broadcast tells every running call: a log message does not say which call it is about.
func (c *client) broadcast(n Notification) {
	if c.shared {
		return // nor whose it is
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.calls {
		r.notify(n)
	}
}

func logOf(fields map[string]any) *Log {
	level, _ := fields["level"].(string)
	logger, _ := fields["logger"].(string)
	data, err := json.Marshal(fields["data"])
	if err != nil {
		data = []byte("null")
	}
	if len(data) > maxNote {
		data, _ = json.Marshal(cut(string(data))) // a string always marshals
	}
	return &Log{Level: cut(level), Logger: cut(logger), Data: string(data)}
}

// cut shortens a text to the bound, with a clear mark.
func cut(s string) string {
	if len(s) <= maxNote {
		return s
	}
	return s[:maxNote] + "… (cut off)"
}
