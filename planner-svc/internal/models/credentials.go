package models

import (
	"fmt"
	"path/filepath"
	"strings"

	"pawl.dev/planner-svc/internal/llm"
)

// credentials makes a function that reads an entry's key and headers. They must be there now and are read again at each request, because
// files of keys change.
func (b *Book) credentials(e *entry) (func() (llm.Credentials, error), error) {
	read := func() (llm.Credentials, error) {
		key, err := b.value("`key`", e.Key)
		c := llm.Credentials{Key: key, Headers: make(map[string]string, len(e.Headers))}
		if e.Organization != "" {
			c.Headers["OpenAI-Organization"] = e.Organization
		}
		for name, text := range e.Headers {
			if err == nil {
				c.Headers[name], err = b.value("the header "+name, text)
			}
		}
		return c, err
	}
	_, err := read()
	return read, err
}

// reference splits env:NAME and file:PATH. It returns two empty texts for anything else.
func reference(text string) (kind, name string) {
	if kind, name, _ = strings.Cut(text, ":"); name == "" || kind != "env" && kind != "file" {
		return "", ""
	}
	return kind, name
}

// value returns the value that a reference names, or the text itself if it is no reference.
func (b *Book) value(what, text string) (string, error) {
	kind, name := reference(text)
	switch kind {
	case "":
		return text, nil
	case "env":
		if value := b.getenv(name); value != "" {
			return value, nil
		}
		return "", fmt.Errorf("%s refers to the environment variable %s, which the planner does not have; set it where the planner is started", what, name)
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(b.file), name)
	}
	raw, err := readFile(name)
	if err != nil {
		return "", fmt.Errorf("%s refers to a file that cannot be read: %w", what, err)
	}
	if value := strings.TrimSpace(string(raw)); value != "" && !strings.ContainsAny(value, "\r\n") {
		return value, nil
	}
	return "", fmt.Errorf("%s refers to the file %s, which holds no key, or more than one line", what, name)
}

// keyAdvice returns the advice for a key that the provider rejects.
func (e *entry) keyAdvice() string {
	switch kind, name := reference(e.Key); {
	case kind == "env":
		return "its provider rejects the key; correct the environment variable " + name + " where the planner is started"
	case kind == "file":
		return "its provider rejects the key; an operator has to correct the file " + name + " that `key` names"
	case e.Name == e.Provider+":"+e.Model && variables[e.Provider].key != "":
		return "its provider wants a key; set the environment variable " + variables[e.Provider].key + " where the planner is started"
	}
	return "its provider wants a key; an operator has to set `key` in the file of models"
}
