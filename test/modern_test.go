package test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
)

// modernVariable names a program, and makes this binary that MCP server over stdio without the handshake, like a server that speaks
// only 2026-07-28.
const modernVariable = "PAWL_TEST_MODERN_ONLY"

// serveModern passes everything on to the program, and refuses initialize.
func serveModern(program string) error {
	cmd := exec.Command(program)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var mu sync.Mutex
	answer := func(line []byte) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(os.Stdout, "%s\n", line)
	}
	go func() {
		defer func() { _ = in.Close() }()
		eachLine(os.Stdin, func(line []byte) {
			var m struct {
				ID     json.RawMessage `json:"id"`
				Method string          `json:"method"`
			}
			if json.Unmarshal(line, &m) == nil && m.Method == "initialize" {
				answer(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found; 2026-07-28 is spoken here"}}`, m.ID))
				return
			}
			fmt.Fprintf(in, "%s\n", line)
		})
	}()
	eachLine(out, answer)
	return cmd.Wait()
}

func eachLine(r io.Reader, each func([]byte)) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		each(lines.Bytes())
	}
}
